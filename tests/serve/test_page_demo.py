"""``tenure demo --web``: leaders frozen and killed before the eyes of a browser, and nothing left at its end."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.serve.browser import chromium, looking

pytestmark = pytest.mark.xdist_group("chromium")


@contextmanager
def demo(folder: Path, *options: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Start it; gives the process and the URL that it prints. It waits for somebody to open it."""
    words = [sys.executable, "-m", "tenure", "demo", "--web", *options]
    out = folder / "out"
    with out.open("w") as lines:
        environ = {**os.environ, "TMPDIR": str(folder)}
        process = subprocess.Popen(words, stdout=lines, stderr=subprocess.PIPE, text=True, env=environ)
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
        found = re.fullmatch(r"watch it at (http://127\.0\.0\.1:\d+/)#span=60\n", said)
        assert found is not None, said
        yield process, found[1]
    finally:
        process.kill()
        process.communicate()


def test_a_browser_sees_a_leader_frozen_succeeded_and_refused_and_another_killed(tmp_path: Path) -> None:
    with demo(tmp_path, "--ttl", "1500ms") as (process, url), chromium() as browser, looking(browser, url) as page:
        headline = page.get_by_role("heading", level=1)
        expect(headline).to_have_text("The only election has a leader")
        expect(headline).to_have_text("The only election has two leaders")
        row = page.locator(".entry:has(.opens[title='demo/invoices'])")
        expect(row.locator(".why")).to_have_text(
            re.compile(r"A/\d+ still works with token 1, though [BC]/\d+ leads with 2\.")
        )
        row.locator(".opens").click()
        expect(row.locator(".marks")).to_contain_text("A is frozen by SIGSTOP, about to pay invoice 3 with token 1.")
        expect(row.locator(".marks")).to_contain_text("The ledger refused a write with token 1: it has seen 2.")
        expect(row.locator(".marks")).to_contain_text("is killed by SIGKILL, about to pay invoice 6 with token 2.")
        expect(row.locator(".tenures tbody tr")).to_have_count(3)
        other = page.locator(".entry:has(.opens[title='demo/invoices-without-fence'])")
        expect(other.locator(".state")).to_contain_text("two leaders")
        over = "The demo is over. The fence held. Without it the same program corrupted its ledger."
        expect(page.get_by_role("alert")).to_have_text(over)
        assert process.wait(timeout=30) == 0


def test_who_gives_up_before_it_has_begun_ends_it(tmp_path: Path) -> None:
    with demo(tmp_path) as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) != 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]

"""The page as ``tenure serve`` serves it, over processes that are killed: what somebody on call sees of that, and does about it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, Page, expect

from tenure.testing.engines.ports import claim_ports
from tests.processes import check_eventually
from tests.serve.browser import chromium, looking
from tests.user import at_home

pytestmark = pytest.mark.xdist_group("chromium")

COMMAND = Path(sys.executable).parent / "tenure"
SECRET = "a-token-that-nobody-guesses-0123456789"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


class Sidecars:
    """Sidecars over one file, each at a port of its own; what is killed can be started again."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._running = folder, dict[int, subprocess.Popen[bytes]]()
        self.claims = claim_ports(2, "127.0.0.1")
        (folder / "token").write_text(SECRET)

    def start(self, which: int, *more: str) -> str:
        """Start one; returns its URL once it answers."""
        port = self.claims[which].port
        place = [f"--store=sqlite://{self._folder}/elections.db", f"--listen=127.0.0.1:{port}", "--ttl=2s"]
        words = [
            str(COMMAND),
            "serve",
            *place,
            f"--token-file={self._folder}/token",
            f"--instance=sidecar {which}",
            *more,
        ]
        with (self._folder / f"{which}.log").open("ab") as log:
            self._running[which] = subprocess.Popen(words, env=at_home(self._folder), stdout=log, stderr=log)
        url = f"http://127.0.0.1:{port}"
        check_eventually(lambda: self._answers(f"{url}/ready"))
        return url

    def kill(self, which: int) -> None:
        process = self._running.pop(which)
        process.kill()
        process.wait()

    def end(self) -> None:
        for which in list(self._running):
            self.kill(which)
        for claim in self.claims:
            claim.release()

    def _answers(self, url: str) -> bool:
        try:
            with urlopen(url, timeout=5) as answer:  # noqa: S310  (our own)
                return int(answer.status) == 200
        except (URLError, OSError):
            return False


@contextmanager
def sidecars(folder: Path) -> Iterator[Sidecars]:
    with ExitStack() as stack:
        made = Sidecars(folder)
        stack.callback(made.end)
        yield made


def leader(page: Page) -> str:
    return page.locator(".leader bdi").inner_text()


def test_a_leader_that_is_killed_is_seen_to_be_succeeded(browser: Browser, tmp_path: Path) -> None:
    with sidecars(tmp_path) as made:
        made.start(0, "--stand=jobs")
        url = made.start(1)
        with looking(browser, url) as page:
            row = page.locator(".entry")
            expect(row.locator(".token")).to_have_text("1")
            expect(row.locator(".state")).to_have_text("fine")
            made.kill(0)
            made.start(0, "--stand=jobs")
            expect(row.locator(".token")).to_have_text("2")
            expect(page.get_by_role("heading", level=1)).to_have_text("The only election has a leader")
            row.locator(".opens").click()
            expect(row.locator(".tenures tbody tr")).to_have_count(2)
            assert row.locator(".tenures tbody tr td:nth-child(1)").all_inner_texts() == ["2", "1"]


def test_a_page_finds_its_server_again_after_a_restart(browser: Browser, tmp_path: Path) -> None:
    with sidecars(tmp_path) as made:
        url = made.start(0, "--stand=jobs")
        with looking(browser, url) as page:
            expect(page.locator(".token span").first).to_have_text("1")
            expect(page.locator("#link-text")).to_have_text("live")
            made.kill(0)
            expect(page.get_by_role("alert")).to_have_text("Connection lost. What you see is old.")
            expect(page.locator("#lost-for")).to_have_text(re.compile(r"for \d+ s; trying again"))
            expect(page).to_have_title("OLD: tenure")
            made.start(0, "--stand=jobs", "--stand=more")
            expect(page.get_by_role("alert")).to_be_hidden()
            expect(page.locator("#link-text")).to_have_text("live")
            expect(page.locator(".entry")).to_have_count(2)
            expect(page.locator(".entry:has(.opens[title='jobs']) .token")).to_have_text("2")
            assert page.locator(".is-old").count() == 0


def test_a_leader_is_asked_to_resign_by_who_has_the_token(browser: Browser, tmp_path: Path) -> None:
    with sidecars(tmp_path) as made:
        url = made.start(0, "--stand=billing/close")
        with looking(browser, url) as page:
            page.locator(".opens").click()
            holder = page.locator(".facts bdi").first.inner_text()
            expect(page.get_by_role("button", name="Hand over…")).to_be_disabled()
            page.get_by_role("button", name="Ask to resign…").click()
            dialog = page.get_by_role("dialog", name="Ask the leader to resign?")
            expect(dialog).to_contain_text("billing/close")
            expect(dialog).to_contain_text(holder)
            expect(dialog).to_contain_text("Nobody stands by. There will be no leader until somebody stands.")
            field, go = dialog.get_by_label("Bearer token"), dialog.get_by_role("button", name="Ask to resign")
            go.click()
            assert page.locator(".token span").first.inner_text() == "1", "without a token nothing is sent"
            field.fill("a-guess-that-is-long-enough")
            go.click()
            expect(dialog.get_by_role("status")).to_have_text("The server refused this token.")
            expect(field).to_have_value("")
            field.fill(SECRET)
            page.keyboard.press("Enter")
            # It resigns, and stands again.
            expect(dialog.get_by_role("status")).to_have_text(re.compile(r"leads now, with token 2\."))
            dialog.get_by_role("button", name="Close").click()
            expect(page.locator("#feed")).to_contain_text("left by choice")
            page.get_by_role("button", name="Ask to resign…").click()
            expect(field).to_be_hidden()  # It was typed once, and is kept for as long as the page is.
            kept = page.evaluate(
                "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
            )
            assert SECRET not in kept
            page.reload()
            page.get_by_role("button", name="Ask to resign…").click()
            expect(field).to_be_visible()


def test_a_server_without_a_token_takes_no_orders(browser: Browser, tmp_path: Path) -> None:
    with sidecars(tmp_path) as made, looking(browser, made.start(0, "--stand=jobs", "--read-only")) as page:
        page.locator(".opens").click()
        expect(page.get_by_role("button", name="Ask to resign…")).to_be_disabled()
        assert leader(page) != "nobody"

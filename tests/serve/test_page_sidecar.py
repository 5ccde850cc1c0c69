"""The page as ``tenure serve`` serves it, over processes that are killed: what somebody on call sees of that, and does about it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.serve.browser import looking
from tests.serve.sidecars import SECRET, sidecars

pytestmark = pytest.mark.xdist_group("chromium")


def leader(page: Page) -> str:
    return page.locator(".leader bdi").inner_text()


def test_a_leader_that_is_killed_is_seen_to_be_succeeded(browser: Browser, tmp_path: Path) -> None:
    with sidecars(tmp_path) as made:
        made.start(0, "--stand=jobs", "--ttl=5s")
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


# A program of its own, which fences its writes and puts on record who led: one that is over tries to write, and is refused.
PROGRAM = """
import sys, anyio, tenure
from tenure.apps.history import keep
from tenure.sinks import SQLiteSink

async def main(folder):
    sink = SQLiteSink(f"{folder}/ledger.db")
    async with tenure.open_store(f"sqlite://{folder}/elections.db") as store, keep(store):
        async with tenure.Election(store, "books", ttl=20).once([sink]) as ada:
            pass
        async with tenure.Election(store, "books", ttl=20).once([sink]):
            try:
                with sink.transaction(ada):
                    pass
            except tenure.StaleToken:
                print("refused", flush=True)
            await anyio.sleep_forever()

anyio.run(main, sys.argv[1])
"""


def test_a_write_that_a_sink_of_another_program_refused_is_marked_on_the_page(browser: Browser, tmp_path: Path) -> None:
    with sidecars(tmp_path) as made, looking(browser, made.start(0)) as page:
        words = [sys.executable, "-c", PROGRAM, str(tmp_path)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            try:
                assert program.stdout.readline() == "refused\n"
                row = page.locator(".entry")
                expect(row.locator(".token")).to_have_text("2")
                expect(page.get_by_role("heading", level=1)).to_have_text("The only election had stale writes refused")
                expect(row.locator(".mark.refused")).to_have_count(1)
                row.locator(".opens").click()
                expect(row.locator(".marks")).to_contain_text("1 write with token 1 refused as stale")
                expect(row.locator(".tenures tbody tr").last).to_contain_text("left by choice")
            finally:
                program.kill()


def test_a_page_finds_its_server_again_after_a_restart(browser: Browser, tmp_path: Path) -> None:
    with sidecars(tmp_path) as made:
        url = made.start(0, "--stand=jobs", "--ttl=5s")
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
            # A file counts one number for all its elections: of the two new tenures, the other may be first, if its predecessor's lease still runs.
            expect(page.locator(".entry:has(.opens[title='jobs']) .token")).to_have_text(re.compile("^[23]$"))
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


def test_an_office_is_handed_over_while_somebody_stands_by(browser: Browser, tmp_path: Path) -> None:
    with sidecars(tmp_path) as made:
        made.start(0, "--stand=billing/close")
        url = made.start(1, "--stand=billing/close")
        with looking(browser, url) as page:
            expect(page.locator(".standbys span")).to_have_text("1")
            page.locator(".opens").click()
            page.get_by_role("button", name="Hand over…").click()
            dialog = page.get_by_role("dialog", name="Hand over to the next in the queue?")
            expect(dialog).to_contain_text("stands by.")
            dialog.get_by_role("button", name="Cancel").click()
            expect(page.locator(".token span").first).to_have_text("1")
            page.get_by_role("button", name="Hand over…").click()
            dialog.get_by_label("Bearer token").fill(SECRET)
            dialog.get_by_role("button", name="Hand over").click()
            expect(dialog.get_by_role("status")).to_have_text(re.compile(r"leads now, with token [2-9]\."))
            assert int(page.locator(".token span").first.inner_text()) > 1


def test_a_server_without_a_token_takes_no_orders(browser: Browser, tmp_path: Path) -> None:
    with sidecars(tmp_path) as made, looking(browser, made.start(0, "--stand=jobs", "--read-only")) as page:
        page.locator(".opens").click()
        expect(page.get_by_role("button", name="Ask to resign…")).to_be_disabled()
        assert leader(page) != "nobody"

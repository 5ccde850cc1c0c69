"""The question that the page asks before it asks a leader to leave, in a real Chromium."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.serve.boards import board, holder, status
from tests.serve.browser import looking, shown
from tests.serve.sidecars import SECRET, sidecars

pytestmark = pytest.mark.xdist_group("chromium")

ADA, BOB = holder("ada", 41), holder("bob", 42)


@contextmanager
def asked(browser: Browser) -> Iterator[Page]:
    """A page on which ada leads and was about to be asked to leave."""
    made = board()
    made.saw([status("jobs", ADA, 7, standbys=(BOB,))], time.time())
    with shown(browser, made) as (page, _):
        page.locator(".opens").click()
        page.get_by_role("button", name="Ask to resign…").click()
        expect(page.get_by_role("dialog")).to_contain_text("ada/41")
        yield page


def test_a_question_that_was_closed_takes_nothing_from_what_came_after_it(browser: Browser) -> None:
    """A dialog's close event comes in a task of its own: keys may come before it, as they do on a slow machine."""
    quickly = """(after) => new Promise((resolve) => {
        const dialog = document.querySelector('dialog');
        dialog.addEventListener('close', () => resolve(), { once: true });
        dialog.close();
        document.querySelector(after === 'leave' ? '#find' : '.detail .actions button').focus();
        if (after !== 'leave') document.activeElement.click();
    })"""
    with asked(browser) as page:
        dialog = page.get_by_role("dialog")
        page.evaluate(quickly, "ask again")
        expect(dialog).to_contain_text("ada/41")
        assert page.evaluate("document.activeElement.id") == "ask-token"
        page.evaluate(quickly, "leave")
        assert page.evaluate("document.activeElement.id") == "find", "the focus was taken back"
        expect(dialog).to_have_count(0)
        assert page.locator("dialog > *").count() == 0


def test_who_came_into_office_while_somebody_read_the_question_is_not_asked(browser: Browser, tmp_path: Path) -> None:
    with sidecars(tmp_path) as made:
        url = made.start(0, "--stand=jobs")
        with looking(browser, url) as page:
            page.locator(".opens").click()
            page.get_by_role("button", name="Ask to resign…").click()
            dialog, token = page.get_by_role("dialog"), page.locator(".token span").first
            expect(dialog).to_contain_text("Token1")
            bearer = {"Authorization": f"Bearer {SECRET}"}
            assert httpx.post(f"{url}/v1/elections/jobs/resign", headers=bearer, json={"token": 1}).status_code == 200
            expect(token).to_have_text("2")
            dialog.get_by_label("Bearer token").fill(SECRET)
            dialog.get_by_role("button", name="Ask to resign").click()
            expect(dialog.get_by_role("status")).to_contain_text("Nobody was asked: the tenure with token 1 is over:")
            expect(dialog.get_by_role("status")).to_contain_text("leads with token 2.")
            assert token.inner_text() == "2"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"holder": "bob/42/b0", "token": 8}, "bob/42 was asked to leave: ada/41 had left."),
        (None, "Nobody was asked to leave: ada/41 had left."),
    ],
)
def test_whom_the_word_was_left_for_is_told_by_the_answer_and_not_by_the_question(
    browser: Browser, answer: dict[str, object] | None, told: str
) -> None:
    sent: list[object] = []

    def reply(route: Route) -> None:
        sent.append(route.request.post_data_json)
        route.fulfill(json={"election": "jobs", "asked": answer, "left": None})

    with asked(browser) as page:
        page.route("**/resign", reply)
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Bearer token").fill(SECRET)
        dialog.get_by_role("button", name="Ask to resign").click()
        expect(dialog.get_by_role("status")).to_have_text(told)
        assert sent == [{"token": 7}]

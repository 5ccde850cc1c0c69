"""Who led when, on the page in a real Chromium: what a server has seen, what is on record, and both together."""

import time

import pytest
from playwright.sync_api import Browser, expect

from tenure.apps.history.records import Sighting
from tenure.apps.history.told import told
from tenure.errors import Reason
from tenure.facts.kinds import Elected, Left
from tenure.model import Incumbent, Token
from tests.history.making import TRAITS, record, sighting
from tests.serve.boards import board, fact, holder, status
from tests.serve.browser import shown

pytestmark = pytest.mark.xdist_group("chromium")

ADA, BOB = holder("ada", 41), holder("bob", 42)


@pytest.mark.parametrize(("seen", "label"), [(None, "3 tenures, 2 gaps"), (sighting(5, 0.0), "3 tenures, 1 gap")])
def test_where_others_led_of_whom_there_is_no_record_nobody_is_not_drawn(
    browser: Browser, seen: Sighting | None, label: str
) -> None:
    made, now_s = board(), time.time()
    first = record(3, began_s=now_s - 500, ended_s=now_s - 400, reason="lapsed")
    second = record(6, began_s=now_s - 90, ended_s=now_s - 70, reason="lapsed", sighting=seen)
    made.saw([status("jobs", ADA, 7, held_s=10, left_s=8, standbys=(BOB,))], now_s)
    made.recorded("jobs", told("jobs", (first, second), TRAITS, None, now_s))
    with shown(browser, made) as (page, _):
        strip = page.locator(".strip").first
        expect(strip).to_have_attribute("aria-label", label)
        assert f", {strip.locator('.gap').count()} gap" in label


LIVES_S = {5: (-400.0, -300.0), 7: (-290.0, -160.0), 9: (-120.0, None)}  # When each began and ended, from now.
SAW_7 = sighting(7, 0.0)


@pytest.mark.parametrize(
    ("seen", "on_record", "saw", "gaps"),
    [
        ((9,), (5, 9), None, ["3 min 00 s", "–"]),  # As far as anybody knows.
        ((5, 9), (5, 9), SAW_7, ["–", "–"]),  # Others led.
        ((5, 7, 9), (5, 9), SAW_7, ["40 s", "10 s", "–"]),  # But who, was seen.
        ((7, 9), (5, 9), SAW_7, ["40 s", "10 s", "–"]),
        ((7,), (5, 9), SAW_7, ["40 s", "10 s", "–"]),
        ((5, 9), (5, 7), None, ["40 s", "10 s", "–"]),  # Or has been recorded meanwhile.
        ((5, 9), (5, 7, 9), SAW_7, ["40 s", "10 s", "–"]),
    ],
)
def test_a_gap_is_that_since_the_last_of_all_who_were_seen_or_are_on_record(
    browser: Browser, seen: tuple[int, ...], on_record: tuple[int, ...], saw: Sighting | None, gaps: list[str]
) -> None:
    made, now_s, log = board(), float(int(time.time())), []
    made.saw([status("jobs", None)], now_s - 500)
    for token, (began_s, ended_s) in LIVES_S.items():
        end = {} if ended_s is None else {"ended_s": now_s + ended_s, "reason": "lapsed"}
        log += [record(token, ADA, now_s + began_s, sighting=saw if token == 9 else None, **end)] * (token in on_record)
        if token in seen:
            made.heard(fact(Elected(Token(token), 0), now_s + began_s, "jobs", ADA))
            if ended_s is not None:
                made.heard(fact(Left(Token(token), Reason.LAPSED), now_s + ended_s, "jobs", ADA))
    tenures = [one.as_json() for one in told("jobs", tuple(log), TRAITS, Incumbent("jobs", ADA, Token(9)), now_s)]
    with shown(browser, made) as (page, _):
        page.route("**/history?*", lambda route: route.fulfill(json={"tenures": tenures}))
        page.locator(".opens").click()
        expect(page.locator(".tenures tbody td:nth-child(7)")).to_have_text(gaps)
        expect(page.locator(".detail .stint")).to_have_count(len(gaps))
        assert page.locator(".detail .strip .gap").count() == sum(gap != "–" for gap in gaps)

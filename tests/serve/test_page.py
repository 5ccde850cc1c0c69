"""The page in a real Chromium, before boards that are fed by hand: what it shows, and what it leaves alone."""

import re
import time

import pytest
from playwright.sync_api import Browser, Page, expect

from tenure.errors import Reason
from tenure.facts.kinds import Elected, Left, RefusedStale
from tenure.model import Token
from tenure.serve.board_showing import Showing
from tests.serve.boards import board, crowded, fact, holder, renewed, status
from tests.serve.browser import NARROW, WIDE, looking, shown

pytestmark = pytest.mark.xdist_group("chromium")

ADA, BOB = holder("ada", 41), holder("bob", 42)


def entry(election: str) -> str:
    """Where the row of an election is."""
    return f".entry:has(.opens[title='{election}'])"


def names(page: Page) -> list[str]:
    return page.locator(".entry:visible .name").all_inner_texts()


def test_a_failover_appears_while_somebody_looks(browser: Browser) -> None:
    made, now_s = board(), time.time()
    others = [status(f"other/{number}", ADA, 3, standbys=(BOB,)) for number in range(4)]
    made.saw([status("jobs", ADA, 7, left_s=8, standbys=(BOB,)), *others], now_s)
    with shown(browser, made) as (page, showing):
        row = page.locator(entry("jobs"))
        expect(page.get_by_role("heading", level=1)).to_have_text("All 5 elections have a leader")
        expect(row.locator(".leader bdi")).to_have_text("ada/41")
        row.evaluate("(element) => { window.kept = element }")
        showing.feed(lambda made: made.saw([status("jobs", None, standbys=(BOB,)), *others], now_s + 9))
        expect(page.get_by_role("heading", level=1)).to_have_text("1 of 5 elections has no leader")
        expect(row.locator(".state")).to_contain_text("no leader")
        assert names(page)[0] == "jobs", "what is wrong comes first"
        showing.hear(fact(Elected(Token(8), 0), now_s + 11, "jobs", BOB))
        expect(row.locator(".leader bdi")).to_have_text("bob/42")
        expect(row.locator(".token")).to_have_text("8")
        expect(page.get_by_role("heading", level=1)).to_have_text("All 5 elections have a leader")
        expect(page.locator("#feed")).to_contain_text("bob/42 leads, token 8")
        expect(page.locator("#plan-body")).to_contain_text("last 1 failover")
        assert row.evaluate("(element) => element === window.kept"), "the row was built anew"
        row.locator(".opens").click()
        expect(row.locator(".tenures tbody tr")).to_have_count(2)
        expect(row.locator(".strip").first).to_have_attribute("aria-label", "2 tenures, 1 gap")


def test_a_night_is_read_from_the_top(browser: Browser) -> None:
    with shown(browser, crowded(37)[0]) as (page, _):
        expect(page.get_by_role("heading", level=1)).to_have_text("1 of 37 elections has two leaders")
        expect(page.locator("#also")).to_contain_text("also 2 without a leader, 1 at risk")
        assert names(page)[:5] == ["ledger/post", "dns/zones", "payments/settle", "warehouse/pick", "chat/presence"]
        first = page.locator(entry("ledger/post"))
        expect(first.locator(".why")).to_have_text(
            "web-a-0/4000 still works with token 41, though web-b-1/4001 leads with 42."
        )
        expect(first.locator(".mark.refused")).to_have_count(3)
        expect(page.locator("#store-body")).to_contain_text("2 of 3 nodes up: quorum, and none to spare")
        expect(page.locator("#plan-body")).to_contain_text("27 s planned, 30 s allowed")
        expect(page).to_have_title("1 of 37 elections has two leaders – tenure")


def test_a_row_has_its_time_in_office_its_margins_and_its_gaps_and_the_plan_is_drawn_with_what_was_measured(
    browser: Browser,
) -> None:
    with shown(browser, crowded(37)[0]) as (page, _):
        row = page.locator(entry("warehouse/pick"))
        expect(row.locator(".office")).to_have_text(re.compile(r"^8 min \d\d s$"))
        expect(row.locator(".margin .spark-line")).to_have_count(1)
        expect(row.locator(".margin-number")).to_have_text("1.3 s")
        expect(page.locator(entry("payments/settle")).locator(".gap:not(.calm)")).to_have_count(1)
        expect(page.locator("#plan-body .planned .dot")).to_have_count(5)
        expect(page.locator("#plan-body .planned .rto")).to_have_count(1)
        row.locator(".opens").click()
        expect(row.locator(".queue li")).to_have_text(["web-b-1/4001"])
        assert row.locator(".tenures tbody tr").count() == 1


def test_filters_by_text_and_by_state_are_kept_in_the_address(browser: Browser) -> None:
    with shown(browser, crowded(37)[0]) as (page, _):
        expect(page.locator(".entry")).to_have_count(37)
        page.get_by_role("searchbox", name="Filter").fill("batch-c-2")
        page.get_by_role("button", name="no leader").click()
        assert names(page) == ["payments/settle"], "it stands by there, and nobody leads"
        page.reload()
        expect(page.locator(".entry:visible .name")).to_have_text(["payments/settle"])
        expect(page.get_by_role("button", name="no leader")).to_have_attribute("aria-pressed", "true")
        page.get_by_role("searchbox", name="Filter").fill("nobody is called that")
        expect(page.locator("#nothing")).to_have_text("No election is like that. Press Escape to see all of them.")
        page.keyboard.press("Escape")
        expect(page.locator(".entry:visible")).to_have_count(37)


def test_of_500_rows_only_those_that_changed_are_touched(browser: Browser) -> None:
    made, now_s = crowded(500)
    watch = """() => {
        window.before = [...document.querySelectorAll('.entry')];
        window.touched = new Set();
        new MutationObserver((found) => {
            for (const { target, type, addedNodes } of found) {
                const element = target.nodeType === 1 ? target : target.parentElement;
                const one = element?.closest('.entry');
                // What moves by itself moves in rows that are on the screen, once a second.
                if (one && !element.closest('.office, .lasts, .strip-place')) touched.add(one);
                for (const node of addedNodes) if (node.classList?.contains('entry')) touched.add(node);
            }
        }).observe(document.getElementById('table'), { subtree: true, childList: true, characterData: true, attributes: true });
    }"""
    with shown(browser, made) as (page, showing):
        expect(page.locator(".entry")).to_have_count(500)
        page.evaluate(watch)
        for number in range(4):
            name, who = f"auth/close/{107 + 100 * number:04}", holder("new", number + 1)
            showing.hear(fact(Elected(Token(5000 + number), 0), now_s + number, name, who))
        showing.hear(fact(Left(Token(5000), Reason.LAPSED), now_s + 20, "auth/close/0107", holder("new", 1)))
        expect(page.locator(entry("auth/close/0107")).locator(".state")).to_contain_text("no leader")
        kept = page.evaluate("before.filter((element) => element.isConnected).length")
        touched = page.evaluate("[...touched].map((element) => element.querySelector('.name').textContent)")
        assert kept == page.locator(".entry").count() == 500
        assert set(touched) == {"auth/close/0107", "auth/close/0207", "auth/close/0307", "auth/close/0407"}


def test_names_that_strangers_chose_are_text(browser: Browser) -> None:
    hostile = [
        "<img src=x onerror=window.hacked=1>",
        "a\u202eevil/\u202d",
        "x" * 200,
        "'; alert(1); //",
        "{{7*7}}",
        "%3Cb%3E",
    ]
    who = holder("<script>window.hacked=1</script>", 1)
    made, now_s = board(), time.time()
    made.saw([status(name, who, 1, standbys=(who,), advertised="javascript:alert(1)") for name in hostile], now_s)
    made.heard(fact(RefusedStale("<b>sink</b>", 0, 1), now_s, hostile[0]))
    with shown(browser, made, NARROW) as (page, _):
        expect(page.locator(".entry")).to_have_count(len(hostile))
        assert sorted(page.locator(".name").all_text_contents()) == sorted(hostile)
        for opens in page.locator(".opens").all():
            opens.click()
        expect(page.locator(".detail")).to_have_count(len(hostile))
        assert page.evaluate("window.hacked") is None
        assert page.locator(".entry :is(img, script, b, a)").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "a name pushes the page aside"


# The lines in which a text is laid out.
LINES = """(element) => {
    const lines = [];
    const walk = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let last = null; walk.nextNode(); ) {
        for (let at = 0; at < walk.currentNode.length; at += 1) {
            const range = document.createRange();
            range.setStart(walk.currentNode, at);
            range.setEnd(walk.currentNode, at + 1);
            const { top } = range.getBoundingClientRect();
            if (last === null || Math.abs(top - last) > 3) lines.push("");
            lines.push(lines.pop() + range.toString());
            last = top;
        }
    }
    return lines;
}"""


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_a_long_name_is_broken_between_words_and_its_end_always_shows(browser: Browser, size: tuple[int, int]) -> None:
    long = "big-company/department-of-ledgers/nightly-reconciliation/europe-west-4/shard-0042"
    java = "com.example.payments.EndOfDay.primary"
    who = holder("ip-10-23-114-201.eu-west-1.compute.internal", 1234567)
    made, now_s = board(), time.time()
    made.saw([status(name, who, 1, left_s=8) for name in (long, long.replace("42", "43"), java)], now_s)
    with shown(browser, made, size) as (page, _):
        row = page.locator(entry(long))
        expect(row.locator(".name-ends")).to_have_text("/shard-0042")
        expect(row.locator(".name-ends")).to_be_visible()
        assert row.locator(".name").text_content() == long
        assert len(row.locator(".name-ends").evaluate(LINES)) == 1
        for found in (page.locator(entry(java)).locator(".name"), row.locator(".leader bdi")):
            lines = found.evaluate(LINES)
            assert len(lines) > 1
            assert all(line[-1] in "/.:-" or line.endswith(("Of", "End", "Day")) for line in lines[:-1]), lines
        shut = row.locator(".name").bounding_box()
        row.locator(".opens").click()
        opened = row.locator(".name").bounding_box()
        assert shut is not None
        assert opened is not None
        assert opened["height"] > shut["height"], "all of it shows"


def test_what_is_wrong_with_the_store_or_with_writes_is_seen_at_the_top(browser: Browser) -> None:
    made, now_s = board(), time.time()
    made.saw([status("jobs", ADA, 7, left_s=8, standbys=(BOB,))], now_s)
    with shown(browser, made) as (page, showing):
        headline, band = page.get_by_role("heading", level=1), page.locator("#status")
        expect(band).to_have_attribute("data-level", "ok")
        three = {"h1": True, "h2": True, "h3": False}
        showing.feed(lambda made: made.store_is(ok=True, at_s=now_s, members=three))
        expect(headline).to_have_text("The store has no node to spare: 1 of 3 is down")
        expect(page.locator("#also")).to_have_text("The only election has a leader")
        expect(band).to_have_attribute("data-level", "warn")
        showing.feed(lambda made: made.store_is(ok=True, at_s=now_s, members=three | {"h2": False}))
        expect(headline).to_have_text("2 of the 3 nodes that the URL names are down")
        expect(band).to_have_attribute("data-level", "warn")
        expect(page.locator("#store-body")).to_contain_text("1 of the 3 nodes up that the URL names")
        showing.feed(lambda made: made.store_is(ok=True, at_s=now_s, members=dict.fromkeys(three, True)))
        showing.hear(fact(RefusedStale("ledger", 6, 7), now_s, "jobs"))
        expect(headline).to_have_text("The only election had stale writes refused")
        expect(band).to_have_attribute("data-level", "warn")
        row = page.locator(entry("jobs"))
        expect(row.locator(".state")).to_contain_text("stale writes")
        expect(row.locator(".mark.refused")).to_have_count(1)
        showing.feed(lambda made: made.store_is(ok=False, detail="no answer within 5 s", at_s=now_s))
        expect(headline).to_have_text("The store does not answer")
        expect(page.locator("#also")).to_have_text("when last seen 1 with stale writes refused")
        expect(page.locator("body.is-blind")).to_have_count(1)
        expect(page.locator("#store-body")).to_contain_text("no answer within 5 s")
        assert page.title() == "The store does not answer – tenure"


def test_all_of_it_can_be_done_by_keyboard(browser: Browser) -> None:
    with shown(browser, crowded(37)[0]) as (page, _):
        expect(page.locator(".entry")).to_have_count(37)
        focused = "document.activeElement.textContent"
        page.keyboard.press("Tab")
        assert page.evaluate(focused) == "Skip to the elections"
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "find"
        page.keyboard.type("bill")
        page.keyboard.press("Enter")
        assert page.evaluate(focused) == "billing/close"
        page.keyboard.press("ArrowDown")
        assert page.evaluate(focused) == "billing/compact"
        page.keyboard.press("Enter")
        expect(page.locator(".detail")).to_have_count(1)
        expect(page.locator(".opens[aria-expanded=true]")).to_have_text("billing/compact")
        page.keyboard.press("Tab")
        assert page.evaluate(focused) == "Ask to resign…"
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_contain_text("billing/compact")
        for _ in range(6):  # Nothing behind the dialog can be reached.
            page.keyboard.press("Tab")
            assert page.evaluate(
                "document.activeElement === document.body || document.activeElement.closest('dialog') !== null"
            )
        page.keyboard.press("Escape")
        assert page.evaluate(focused) == "Ask to resign…"
        assert page.locator(".opens[tabindex='0']").count() == 1, "one stop for the Tab key in the whole list"
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("End")
        assert page.evaluate(focused) == "billing/index"


def test_a_page_that_only_shows_has_nothing_to_press(browser: Browser) -> None:
    made = board(read_only=True)
    made.saw([status("jobs", ADA, 7, standbys=(BOB,))], time.time())
    with shown(browser, made) as (page, _):
        page.locator(".opens").click()
        expect(page.get_by_role("button", name="Ask to resign…")).to_be_disabled()
        expect(page.get_by_role("button", name="Hand over…")).to_be_disabled()
        expect(page.locator(".detail")).to_contain_text("This page only shows")
        assert page.locator(".detail button:enabled").count() == 0
        expect(page.locator("#where")).to_have_text("sidecar on ops-3, read only")


def test_the_theme_is_the_systems_until_somebody_chooses_and_then_it_is_remembered(browser: Browser) -> None:
    with shown(browser, board()) as (page, _):
        paper = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(paper)
        page.emulate_media(color_scheme="dark")
        dark = page.evaluate(paper)
        assert light != dark
        page.get_by_role("button", name="Theme: system").click()
        assert page.evaluate(paper) == light
        page.reload()
        assert page.evaluate(paper) == light
        page.get_by_role("button", name="Theme: light").click()
        page.get_by_role("button", name="Theme: dark").click()
        expect(page.get_by_role("button", name="Theme: system")).to_be_visible()


def test_a_screen_reader_is_told_the_headline_and_not_every_change(browser: Browser) -> None:
    made, now_s = board(), time.time()
    made.saw([status("jobs", ADA, 7, standbys=(BOB,))], now_s)
    showing = Showing(made)
    with showing.served(lambda: "It is over.") as url, looking(browser, url) as page:
        page.clock.install()
        page.reload()  # Now its timers are ours.
        expect(page.locator(".entry")).to_have_count(1)
        page.evaluate("""() => {
            window.heard = [];
            new MutationObserver(() => heard.push(said.textContent)).observe(said, { subtree: true, childList: true, characterData: true });
        }""")
        for beat in range(30):
            showing.hear(renewed(now_s + beat, "jobs", ADA, 5.9))
        showing.feed(lambda made: made.saw([status("jobs", None, standbys=(BOB,))], now_s + 9))
        page.clock.run_for(300)
        expect(page.get_by_role("heading", level=1)).to_have_text("The only election has no leader")
        page.clock.run_for(20_000)
        assert page.evaluate("heard") == ["The only election has no leader"]


def test_an_empty_store_and_a_demo_that_ended_are_told_in_words(browser: Browser) -> None:
    made = board()
    made.saw([], time.time())
    showing = Showing(made)
    with showing.served(lambda: "The demo is over.") as url, looking(browser, url) as page:
        expect(page.get_by_role("heading", level=1)).to_have_text("No elections yet")
        expect(page.locator("#nothing")).to_contain_text("Each appears here as soon as somebody stands for it.")
        showing.close("The demo is over.")
        expect(page.get_by_role("alert")).to_have_text("The demo is over.")
        expect(page.locator("#retry")).to_be_hidden()
        assert page.locator(".is-old").count() == 0, "it is not old: it is all that there was"

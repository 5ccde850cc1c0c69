"""What axe-core finds wrong with the page: nothing, at both widths, in both themes, with everything open. And its pictures.

The pictures of the documents are made by this run if somebody asks for them: ``TENURE_PICTURES=1 pytest tests/serve/test_page_axe.py``.
"""

import os
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tenure.serve.board_showing import Showing
from tests.serve.boards import crowded
from tests.serve.browser import NARROW, WIDE, looking
from tests.serve.pictures import made_of, said_to_be_made_of, smaller

pytestmark = pytest.mark.xdist_group("chromium")

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SIZES = {"wide": WIDE, "narrow": NARROW}
Scheme = Literal["light", "dark"]


def faults(page: Page) -> list[str]:
    """What axe has found: the rule, and where."""
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{one['id']} ({one['impact']}): {node['target']} {node['html'][:120]}"
        for one in found
        for node in one["nodes"]
    ]


def picture(page: Page, name: str) -> None:
    if os.environ.get("TENURE_PICTURES"):
        IMAGES.mkdir(exist_ok=True)
        (IMAGES / f"{name}.png").write_bytes(smaller(page.screenshot()))


PICTURES = ("page-wide-light", "page-wide-dark", "page-narrow-light", "page-narrow-dark", "page-open")


def test_the_pictures_of_the_documents_are_of_this_page() -> None:
    if os.environ.get("TENURE_PICTURES"):
        return  # They are being made.
    assert sorted(file.stem for file in IMAGES.glob("page-*")) == sorted(PICTURES)
    old = [name for name in PICTURES if said_to_be_made_of((IMAGES / f"{name}.png").read_bytes()) != made_of()]
    assert old == [], "make them anew: TENURE_PICTURES=1 pytest tests/serve/test_page_axe.py"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_axe_finds_nothing(browser: Browser, size: str, scheme: Scheme) -> None:
    showing = Showing(crowded(37)[0])
    with showing.served(lambda: "") as url, looking(browser, url, SIZES[size], color_scheme=scheme) as page:
        expect(page.locator(".entry")).to_have_count(37)
        expect(page.locator(".entry .strip").first).to_be_visible()
        picture(page, f"page-{size}-{scheme}")
        assert faults(page) == []
        page.locator(".opens").first.click()
        page.mouse.move(0, 0)
        expect(page.locator(".detail .strip")).to_be_visible()
        if (size, scheme) == ("wide", "light"):
            picture(page, "page-open")
        page.locator(".opens").nth(3).click()
        page.get_by_role("button", name="no leader").click()
        page.get_by_role("button", name="no leader").click()
        assert faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_role("button", name="Ask to resign…").first.click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert faults(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_a_page_whose_store_is_gone(browser: Browser, scheme: Scheme) -> None:
    made, now_s = crowded(12)
    made.store_is(ok=False, detail="no answer within 5 s", at_s=now_s)
    showing = Showing(made)
    with showing.served(lambda: "") as url, looking(browser, url, NARROW, color_scheme=scheme) as page:
        expect(page.locator(".entry")).to_have_count(12)
        expect(page.locator(".is-blind")).to_have_count(1)
        assert faults(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_a_page_that_has_lost_its_server(browser: Browser, scheme: Scheme) -> None:
    showing = Showing(crowded(12)[0])
    with showing.served(lambda: "It is over.") as url, looking(browser, url, NARROW, color_scheme=scheme) as page:
        expect(page.locator(".entry")).to_have_count(12)
        showing.close("It is over.")
        expect(page.get_by_role("alert")).to_have_text("It is over.")
        assert faults(page) == []

"""Chromium for tests: started once for a module, with a new profile for each page, and strict about what a page may do.

Playwright's loop runs on the thread of the test for as long as it is started, and no other loop can run there: so it is ended with
the module, and whatever is served is served by threads or processes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tenure.serve.board import Board
from tenure.serve.board_showing import Showing
from tenure.testing.engines.binaries import tool

WIDE, NARROW = (1600, 1000), (400, 860)
PATIENCE_MS = 20_000  # An expectation that is not met at once waits for as long.
expect.set_options(timeout=PATIENCE_MS)
_FLAGS = (
    "--no-sandbox",
    "--headless=new",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_WATCH = "window.violations = []; addEventListener('securitypolicyviolation', (one) => violations.push(one.violatedDirective))"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start it; raises MissingEngine."""
    program = tool("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def looking(browser: Browser, url: str, size: tuple[int, int] = WIDE, **more: Any) -> Iterator[Page]:
    """Open a page at a URL. What it did that it must not, or failed with, fails the test at the end of the block."""
    wrong: list[str] = []
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **more)
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(_WATCH)
    page = context.new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith((url, "data:")) else wrong.append(request.url))
    try:
        page.goto(url)
        yield page
        wrong += page.evaluate("violations")
    finally:
        context.close()
    assert wrong == []


@contextmanager
def shown(browser: Browser, made: Board, size: tuple[int, int] = WIDE, at: str = "/") -> Iterator[tuple[Page, Showing]]:
    """A page before a board that is fed by hand."""
    showing = Showing(made)
    with showing.served(lambda: "It is over.") as url, looking(browser, f"{url}{at}", size) as page:
        yield page, showing

"""What tests of the page share."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.serve.browser import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, for the tests of one module: see there why for no more."""
    with chromium() as started:
        yield started

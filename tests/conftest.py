"""Options of our own. They stand here because pytest reads only this file before it reads its command line."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what the candidate really does into tests/scripts/*.txt; read the difference before you commit it",
    )

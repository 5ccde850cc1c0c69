"""Options of our own, which pytest reads here before it reads its command line; and what tests of several folders share."""

from collections.abc import Awaitable, Callable

import anyio
import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what the candidate really does into tests/scripts/*.txt; read the difference before you commit it",
    )


@pytest.fixture(params=["asyncio", "trio"])
def on(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[None]]], None]:
    """Run an async test on asyncio and on trio."""

    def run(test: Callable[[], Awaitable[None]]) -> None:
        async def bounded() -> None:
            with anyio.fail_after(30):
                await test()

        anyio.run(bounded, backend=request.param)

    return run

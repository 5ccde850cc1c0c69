"""A service whose handlers hand the token on to their database keeps the contract of sinks, behind real servers.

For its leader check and write are one request, and what the contract loses between the two is that request, on its way. A leader that dies in
the middle of it, and a server that dies in its handler (``test_a_server_that_dies_in_a_handler…``), leave the mark raised and the write
missing, which refuses more and never less: the database's own fence is what makes both one step.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path

import pytest
from anyio import to_thread

from tenure.errors import OutcomeUnknown, StaleToken
from tenure.model import Token
from tenure.sinks import Bound, SQLiteMark, Verify
from tenure.sinks.http import HttpSink, Presented
from tenure.testing import SINK_CONTRACT, check_sink_promise
from tenure.testing.engines.processes import wait_for
from tenure.web import FencedASGI, FencedWSGI, Guard, Route
from tests.web.ledger import Ledger
from tests.web.serving import Serve, asgi, wsgi
from tests.web.wire import Wire, cut_off

pytestmark = pytest.mark.anyio
SECRET = "sixteen bytes at least"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class ServiceRig:
    """One service; its database and its mark outlive it."""

    def __init__(self, folder: Path, serve: Serve) -> None:
        self.folder, self.serve, self.ledger = folder, serve, Ledger(folder / "ledger.db")
        self.stack = ExitStack()
        self.start()

    def start(self) -> None:
        mark = SQLiteMark(self.folder / "mark.db")
        self.stack.callback(mark.close)
        self.guard = Guard([Route("/", lambda _: True)], mark, secrets=[SECRET])
        app = (
            FencedASGI(self.ledger.asgi, self.guard) if self.serve is asgi else FencedWSGI(self.ledger.wsgi, self.guard)
        )
        self.url = self.stack.enter_context(self.serve(app))

    @asynccontextmanager
    async def open(self, verify: Verify | None = None) -> AsyncIterator[HttpSink]:
        self.guard.verify = verify
        yield HttpSink(self.url, secret=SECRET)

    async def write(self, client: HttpSink, term: Bound, value: str) -> None:
        assert (await client.bind(term).request("POST", "/entries", value.encode())).status == 200

    async def read_all(self, fence: str) -> list[str]:
        return self.ledger.values(fence)

    async def crash_between_check_and_write(self, term: Bound, value: str) -> None:
        with Wire(self.url, loses=True) as wire:
            writing = asyncio.create_task(self.write(HttpSink(wire.url, secret=SECRET), term, value))
            await to_thread.run_sync(wire.cut_after, value.encode())
            with pytest.raises(OutcomeUnknown):
                await writing

    async def restart(self) -> None:
        await to_thread.run_sync(self.stack.close)
        self.start()


Make = Callable[[], AbstractAsyncContextManager[ServiceRig]]


@pytest.fixture(params=[asgi, wsgi], ids=["uvicorn", "wsgiref"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    @asynccontextmanager
    async def made() -> AsyncIterator[ServiceRig]:
        rig = ServiceRig(tmp_path, request.param)
        try:
            yield rig
        finally:
            await to_thread.run_sync(rig.stack.close)
            rig.ledger.sink.close()

    return made


@pytest.mark.parametrize("promise", SINK_CONTRACT)
async def test_the_service_keeps_each_promise(promise: str, make: Make) -> None:
    await check_sink_promise(promise, make)


async def test_a_leader_that_dies_in_the_middle_of_its_request_has_written_nothing_and_the_mark_is_ahead(
    make: Make,
) -> None:
    async with make() as rig, rig.open() as sink:
        two, three = (Presented(Token(token), "dies") for token in (2, 3))
        await rig.write(sink, two, "first")
        # All that it would have said is heard once, and then said but for its last byte.
        with Wire(rig.url, loses=True) as wire:
            writing = asyncio.create_task(rig.write(HttpSink(wire.url, secret=SECRET), three, "lost"))
            await to_thread.run_sync(wire.cut_after, b"lost")
            with pytest.raises(OutcomeUnknown):
                await writing
        cut_off(wire.heard[:-1], rig.url)
        assert await to_thread.run_sync(wait_for, lambda: rig.ledger.cut_off == 1, 30)
        assert await rig.read_all("dies") == ["first"]
        with pytest.raises(StaleToken, match="highest seen is 3"):
            await rig.write(sink, two, "stale")
        await rig.write(sink, three, "again")
        assert await rig.read_all("dies") == ["first", "again"]

"""A service whose handlers hand the token on to their database keeps the contract of sinks, behind real servers.

What is killed between check and write is the request on its way. A *server* that dies there leaves its mark raised and the write
missing (``test_a_server_that_dies_in_a_handler…``): the database's own fence is what makes both one step.
"""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from anyio import to_thread

from tenure.sinks import Bound, SQLiteMark, Verify
from tenure.sinks.http import HttpSink
from tenure.testing import SINK_CONTRACT, check_sink_promise
from tenure.web import FencedASGI, FencedWSGI, Guard, Route
from tests.web.ledger import Ledger
from tests.web.serving import Serve, asgi, wsgi

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
        del term  # Its header is cut off in the middle.
        split = urlsplit(self.url)
        with socket.create_connection((split.hostname, split.port)) as link:
            link.sendall(f"POST /entries HTTP/1.1\r\nHost: x\r\nContent-Length: {len(value)}\r\nTenure-T".encode())

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

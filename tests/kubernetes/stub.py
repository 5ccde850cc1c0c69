"""An API server that does as a test says: it has Leases with versions and one watch for everybody, and no rules of its own."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tenure.clients.kubernetes import KubernetesClient, Settings
from tenure.clients.kubernetes.access import Access
from tenure.clients.kubernetes.credentials import Credentials, Fixed
from tenure.clients.kubernetes.settings import TRANSITIONS

Answering = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


def status(code: int, **headers: str) -> web.Response:
    """What an API server says that does not do as it is asked."""
    return web.json_response({"kind": "Status", "message": f"code {code}", "code": code}, status=code, headers=headers)


class Stub:
    """Leases by name. ``answer`` may say something else to a request than they would; ``watch`` to a watch."""

    def __init__(self) -> None:
        self.leases: dict[str, dict[str, Any]] = {}
        self.version = 100
        self.events: list[tuple[int, dict[str, Any]]] = []
        self.changed = asyncio.Event()
        self.requests: list[str] = []
        self.answer: Answering | None = None
        self.watch: Answering | None = None
        self.server = ""

    def settings(self, credentials: Credentials | None = None, timeout_s: float = 10) -> Settings:
        access = Access(self.server, credentials or Fixed(None, ""), "default")
        return Settings(access, "default", timeout_s, TRANSITIONS)

    @asynccontextmanager
    async def client(
        self, credentials: Credentials | None = None, timeout_s: float = 10
    ) -> AsyncIterator[KubernetesClient]:
        access = self.settings(credentials).access
        async with KubernetesClient(access, address="kubernetes://default", timeout_s=timeout_s) as client:
            yield client

    def write(self, name: str, body: dict[str, Any], what: str = "MODIFIED") -> dict[str, Any]:
        """Write a Lease, and tell those who watch."""
        self.version += 1
        lease = {**body, "metadata": {**body["metadata"], "name": name, "resourceVersion": str(self.version)}}
        self.leases[name] = lease
        self.tell({"type": what, "object": lease})
        return lease

    def delete(self, name: str) -> None:
        """Delete a Lease, as an operator does, and tell those who watch."""
        self.version += 1
        lease = self.leases.pop(name)
        metadata = {**lease["metadata"], "resourceVersion": str(self.version)}
        self.tell({"type": "DELETED", "object": {**lease, "metadata": metadata}})

    def tell(self, event: dict[str, Any]) -> None:
        """Tell those who watch from an earlier version than this."""
        self.events.append((self.version, event))
        news, self.changed = self.changed, asyncio.Event()
        news.set()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        watches = "watch" in request.query
        self.requests.append("WATCH" if watches else request.method)
        said = self.watch if watches else self.answer
        given = await said(request) if said is not None else None
        if given is not None:
            return given
        if watches:
            return await self._watched(request)
        return await self._answer(request)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        name = request.path.rpartition("/leases")[2].lstrip("/")
        if request.method == "GET" and ("/leases" not in request.path or not name):
            return web.json_response({"metadata": {"uid": "stub", "resourceVersion": str(self.version)}, "items": []})
        if request.method == "POST":
            body = await request.json()
            name = body["metadata"]["name"]
            return status(409) if name in self.leases else web.json_response(self.write(name, body, "ADDED"))
        if name not in self.leases:
            return status(404)
        if request.method == "PUT":
            body = await request.json()
            if body["metadata"]["resourceVersion"] != self.leases[name]["metadata"]["resourceVersion"]:
                return status(409)
            return web.json_response(self.write(name, body))
        return web.json_response(self.leases[name])

    async def _watched(self, request: web.Request) -> web.StreamResponse:
        response, told_count = web.StreamResponse(), 0
        await response.prepare(request)
        while True:
            news = self.changed
            for version, event in self.events[told_count:]:
                if version > int(request.query["resourceVersion"]):
                    await response.write(json.dumps(event).encode() + b"\n")
            told_count = len(self.events)
            await news.wait()


@asynccontextmanager
async def stub(tls: ssl.SSLContext | None = None) -> AsyncIterator[Stub]:
    api = Stub()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", api.serve)
    runner = web.AppRunner(application, shutdown_timeout=0, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        host, port = runner.addresses[0][:2]
        api.server = f"{'http' if tls is None else 'https'}://{host}:{port}"
        yield api
    finally:
        await runner.cleanup()

"""The sidecar as an ASGI application: ``build(store, setup)``."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from tenure.errors import StoreError, TenureError
from tenure.office.opened import OpenStore
from tenure.serve.answers import Fault, Receive, Scope, Send, answer, encoded, fault_of, refuse
from tenure.serve.api import TABLE
from tenure.serve.fields import body_of, query_of
from tenure.serve.gate import Bearer, Hosts, Rate, headers_of, read_body
from tenure.serve.openapi import document_of
from tenure.serve.routes import Access, Call, Reply
from tenure.serve.setup import Setup
from tenure.serve.sidecar import Sidecar
from tenure.serve.streaming import pipe_of


class Api:
    """Lets requests through to their handlers, and answers what is refused on the way."""

    def __init__(self, sidecar: Sidecar) -> None:
        setup = sidecar.setup
        self._sidecar = sidecar
        self._hosts = Hosts(setup.allow_hosts, checked=setup.check_host)
        self._bearer = Bearer(setup.tokens, read_only=setup.read_only)
        self._rate = Rate(setup.rate_per_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        head = scope["method"] == "HEAD"
        try:
            reply = await self._handle(scope, receive, send)
        except TenureError as error:
            await refuse(send, fault_of(error), head=head)
            return
        if reply is not None:
            await answer(send, reply.status, reply.body, reply.kind, headers=reply.headers, head=head)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> Reply | None:
        headers = headers_of(scope)
        self._hosts.check(headers.get(b"host"))
        route, path = TABLE.find(scope["method"], scope["raw_path"].decode("ascii", "replace"))
        if route.access is not Access.PROBE:
            client = scope["client"][0] if scope.get("client") else ""
            if route.access is Access.TOKEN:
                self._bearer.check(headers.get(b"authorization"), client)
                if (pipe := pipe_of(scope)) is not None:
                    pipe.showed_token()
                # Who has the token is counted apart. Anybody on this machine, and any page in a browser there, can ask so often that
                # nothing is left for its address; the heartbeats of a leader would be refused, and its office lost.
                client = f"{client} with a token"
            self._rate.spend(client)
        query = query_of(route.query, scope["query_string"]) if route.query else {}
        body = {} if route.body is None else body_of(route.body, await read_body(headers, receive))
        return await route.handler(Call(self._sidecar, path, query, body, scope, receive, send))


async def _unforeseen(_: Request, __: Exception) -> Response:
    """Answer what nobody foresaw. The server logs what it was; the client need not know."""
    fault = Fault(500, "internal", "this is a mistake of the sidecar, which its log tells of")
    return Response(encoded(fault.body), fault.status, media_type="application/json")


def build(store: OpenStore, setup: Setup | None = None, unreached: StoreError | None = None) -> Starlette:
    """Return the application; ``app.state.sidecar`` is what it consists of.

    ``store`` has to be open when it starts, and is not closed here; or could not be opened, as ``unreached`` says. Then another one
    for the same engine is opened when that can be, and closed at the end.
    """
    sidecar = Sidecar(store, setup or Setup(), document_of(TABLE.routes), unreached)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        await sidecar.start()
        try:
            yield
        finally:
            await sidecar.close()

    # No CORS: nobody else's page may read this, nor write to it.
    app = Starlette(lifespan=lifespan, exception_handlers={Exception: _unforeseen})
    # Whatever is sent, however odd: a route of Starlette's own would match no path with a line break in it, nor one with a host, and
    # answer these by itself.
    app.router.default = Api(sidecar)
    app.state.sidecar = sidecar
    return app

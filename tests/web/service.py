"""A service behind the middleware, on a real server, and raw HTTP to speak to it."""

import http.client
import threading
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

from anyio import to_thread

from tenure.errors import StaleToken
from tenure.sinks.http import Presented
from tenure.web import FencedASGI, FencedWSGI, Guard
from tests.web.serving import Serve, asgi

HEADER = "Tenure-Token"


class Service:
    """Answers with the token that it was handed. ``/slow`` waits until it is let go."""

    def __init__(self) -> None:
        self.entered, self.let_go = threading.Event(), threading.Event()
        self.calls: list[str] = []

    def seen(self, path: str, presented: Presented | None) -> bytes:
        self.calls.append(path)
        if path == "/slow":
            self.entered.set()
            assert self.let_go.wait(30)
        if path == "/database":
            assert presented is not None
            raise StaleToken(presented.token, presented.token + 1)
        return str(presented.token if presented else None).encode()

    def wsgi(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        body = self.seen(environ["PATH_INFO"], environ.get("tenure"))
        start_response("200 OK", [("Content-Length", str(len(body)))])
        return [body]

    async def asgi(self, scope: Any, _: Any, send: Any) -> None:
        body = await to_thread.run_sync(self.seen, scope["path"], scope.get("tenure"))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})


class Rig:
    def __init__(self, serve: Serve, stack: ExitStack) -> None:
        self._serve, self._stack, self.service = serve, stack, Service()

    def start(self, guard: Guard) -> None:
        self.guard = guard
        app = FencedASGI(self.service.asgi, guard) if self._serve is asgi else FencedWSGI(self.service.wsgi, guard)
        self.url = self._stack.enter_context(self._serve(app))

    def ask(self, path: str = "/entries", *values: str, method: str = "POST") -> tuple[int, dict[str, str], bytes]:
        split = urlsplit(self.url)
        link = http.client.HTTPConnection(split.hostname or "", split.port or 0, timeout=30)
        link.putrequest(method, path)
        for value in values:
            link.putheader(HEADER, value.encode("utf-8"))
        link.putheader("Content-Length", "2")
        link.endheaders(b"{}")
        answer = link.getresponse()
        found = answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()
        link.close()
        return found

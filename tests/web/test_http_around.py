"""Ways around the guard: targets, prefixes, methods and paths that a framework reads otherwise than the guard might."""

import io
import threading
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

from tenure.errors import StaleToken
from tenure.model import Token
from tenure.sinks import MemoryMark
from tenure.sinks.http import Presented
from tenure.sinks.http.header import value_of
from tenure.web import FencedASGI, FencedWSGI, Guard, Route

FENCE = "etcd://h1/billing"
SEAL = "/.well-known/tenure/seal"
Answer = tuple[int, str]


def header(token: int, fence: str = FENCE) -> str:
    return value_of(Presented(Token(token), fence))


class Asked:
    """One request to each kind of middleware, as servers hand it on; 200 is the application's answer."""

    def __init__(self, guard: Guard) -> None:
        self.wsgi, self.asgi = FencedWSGI(self._wsgi, guard), FencedASGI(self._asgi, guard)

    @staticmethod
    def _wsgi(_: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b""]

    @staticmethod
    async def _asgi(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    def by_wsgi(self, path: str, prefix: str = "", method: str = "POST", value: str | None = None) -> Answer:
        environ: dict[str, Any] = {"REQUEST_METHOD": method, "SCRIPT_NAME": prefix, "PATH_INFO": path}
        if value is not None:
            environ["HTTP_TENURE_TOKEN"] = value
        answers: list[Answer] = []

        def start(status: str, headers: list[tuple[str, str]], *_: object) -> Callable[[bytes], object]:
            answers.append((int(status[:3]), dict(headers).get("Tenure-Refused", "")))
            return bytes

        list(self.wsgi(environ, start))
        return answers[0]

    def by_asgi(self, path: str, prefix: str = "", method: str = "POST", value: str | None = None) -> Answer:
        headers = [] if value is None else [(b"tenure-token", value.encode())]
        scope = {"type": "http", "method": method, "path": path, "root_path": prefix, "headers": headers}
        answers: list[Answer] = []

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                found = dict(message["headers"]).get(b"tenure-refused", b"")
                answers.append((message["status"], found.decode()))

        async def receive() -> Any:
            return {}

        anyio.run(self.asgi, scope, receive, send)
        return answers[0]


@pytest.fixture(params=["wsgi", "asgi"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def asking(kind: str, guard: Guard) -> Callable[..., Answer]:
    asked = Asked(guard)
    return asked.by_wsgi if kind == "wsgi" else asked.by_asgi


def test_a_target_without_its_slash_is_guarded_as_the_framework_reads_it(kind: str) -> None:
    ask = asking(kind, Guard([Route("/bills", FENCE)], MemoryMark()))
    for path in ("bills", "bills/1", "./bills/1", "x/../bills/1", "/bills/1"):
        assert ask(path)[0] == 428, path
    assert ask("free")[0] == 200


def test_a_prefix_of_the_server_leads_around_no_guard(kind: str) -> None:
    ask = asking(kind, Guard([Route("/bills", FENCE), Route("/svc/mail", FENCE)], MemoryMark()))
    # Servers differ: the prefix may stand in the path that they hand on, or not.
    for path in ("/bills/1", "/svc/bills/1", "//bills", "bills", "/mail", "/svc/mail"):
        assert ask(path, "/svc")[0] == 428, path
    assert ask("/free", "/svc")[0] == 200
    for path in (
        "/./svc/bills",
        "//svc/bills",
        "svc/bills",
        "/x/../svc/bills/1",
        "/svc/./bills",
        "/svc//bills",
        "/./mail",
    ):
        for prefix in ("/svc", "/svc/", "//svc", "/./svc"):
            assert ask(path, prefix)[0] == 428, (path, prefix)
    assert ask("/./svc/free", "/svc")[0] == 200
    for number, path in enumerate((SEAL, f"/svc{SEAL}"), start=1):
        assert ask(path, "/svc", "POST", header(number))[0] == 204, path
    assert ask("/bills", "/svc", "POST", header(1)) == (409, "stale")


def test_a_method_in_small_letters_is_guarded(kind: str) -> None:
    ask = asking(kind, Guard([Route("/bills", FENCE, frozenset({"POST"})), Route("/mail", FENCE)], MemoryMark()))
    for path, method in (("/bills/1", "post"), ("/bills/1", "Post"), ("/mail", "delete")):
        assert ask(path, "", method)[0] == 428, method
    assert ask("/mail", "", "get")[0] == 200


def test_a_path_that_means_two_routes_is_refused(kind: str) -> None:
    ask = asking(kind, Guard([Route("/a", "f1"), Route("/b", "f2")], MemoryMark()))
    assert ask("/a/../b/x", "", "POST", header(1, "f1")) == (400, "malformed")
    assert ask("/a/../b/x", "", "POST", header(1, "f2")) == (400, "malformed")
    assert ask("/a/./x", "", "POST", header(1, "f1"))[0] == 200
    assert ask("/x/../b", "", "POST", header(1, "f1")) == (403, "other-fence")
    for routes in ([Route("/a", "f1"), Route("/b", "f2")], [Route("/b", "f2"), Route("/a", "f1")]):
        ask = asking(kind, Guard(routes, MemoryMark()))
        assert ask("/a/../svc/b", "/svc", "POST", header(1, "f2")) == (400, "malformed")


@pytest.mark.anyio
async def test_websockets_are_refused_also_where_only_some_methods_are_guarded() -> None:
    sent: list[Any] = []
    passed: list[str] = []

    async def app(scope: Any, _: Any, __: Any) -> None:
        passed.append(scope["path"])

    async def send(message: Any) -> None:
        sent.append(message["type"])

    async def receive() -> Any:
        return {}

    fenced = FencedASGI(app, Guard([Route("/bills", FENCE, frozenset({"POST"}))], MemoryMark()))
    for path in ("/bills/live", "/free"):
        await fenced({"type": "websocket", "path": path, "headers": []}, receive, send)
    assert (sent, passed) == (["websocket.close"], ["/free"])


class SlowBody(io.BytesIO):
    """A body that its sender does not finish."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.let_go = threading.Event(), threading.Event()

    def read(self, *_: object) -> bytes:
        self.asked.set()
        assert self.let_go.wait(30)
        return b""


def test_a_seal_does_not_wait_for_the_body_of_a_request_that_was_refused() -> None:
    guard = Guard([Route("/", FENCE)], MemoryMark(), seal_within_s=0.1)
    asked, body = Asked(guard), SlowBody()
    assert asked.by_wsgi(SEAL, "", "POST", header(2))[0] == 204
    environ: dict[str, Any] = {"REQUEST_METHOD": "POST", "PATH_INFO": "/x", "HTTP_TENURE_TOKEN": header(1)}
    environ |= {"CONTENT_LENGTH": "9", "wsgi.input": body}
    stale = threading.Thread(target=lambda: asked.wsgi(environ, lambda *_: bytes))
    stale.start()
    try:
        assert body.asked.wait(30)
        assert asked.by_wsgi(SEAL, "", "POST", header(3)) == (204, "")
    finally:
        body.let_go.set()
        stale.join()


@pytest.mark.parametrize("path", ["/x", SEAL])
def test_a_length_that_is_no_number_is_malformed_and_no_accident(path: str) -> None:
    asked, statuses = Asked(Guard([Route("/", FENCE)], MemoryMark(), secrets=["sixteen bytes at least"])), []

    def start(status: str, *_: object) -> Callable[[bytes], object]:
        statuses.append(status[:3])
        return bytes

    for length in ("9" * 5000, "9" * 19, "-1", "+1", "1_0", "x", " 1", "9" * 18, "0", ""):
        environ = {"REQUEST_METHOD": "POST", "PATH_INFO": path, "CONTENT_LENGTH": length, "wsgi.input": io.BytesIO()}
        list(asked.wsgi(environ, start))
    assert statuses == ["400"] * 7 + ["428"] * 3


def test_a_seal_does_not_wait_until_a_refusal_is_read() -> None:
    guard = Guard([Route("/", FENCE)], MemoryMark(), seal_within_s=0.1)
    asked, ahead = Asked(guard), []
    assert asked.by_asgi(SEAL, "", "POST", header(2))[0] == 204

    async def send(_: Any) -> None:
        ahead.append(guard.underway.wait(FENCE, 3, print))

    async def receive() -> Any:
        return {}

    headers = [(b"tenure-token", header(1).encode())]
    anyio.run(asked.asgi, {"type": "http", "method": "POST", "path": "/x", "headers": headers}, receive, send)
    assert ahead == [True, True]


@pytest.mark.parametrize("begins", [False, True])
def test_a_generator_whose_database_finds_the_token_stale_gets_the_same_answer(begins: bool) -> None:
    statuses: list[str] = []

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        if begins:
            start_response("200 OK", [])
            yield b"begun"
        raise StaleToken(environ["tenure"].token, 9)

    def start(status: str, *_: object) -> Callable[[bytes], object]:
        statuses.append(status)
        return bytes

    guard = Guard([Route("/", FENCE)], MemoryMark())
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/x", "HTTP_TENURE_TOKEN": header(7)}
    parts: Any = FencedWSGI(app, guard)(environ, start)
    if begins:
        with pytest.raises(StaleToken):
            list(parts)
    else:
        assert b"urn:tenure:stale" in b"".join(parts)
    parts.close()
    assert statuses == ["200 OK" if begins else "409 Conflict"]
    assert guard.underway.wait(FENCE, 8, print), "it is still counted"

"""The hooks of httpx, aiohttp and requests: every request to the one origin carries the token, and no other ever does."""

import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import anyio
import httpx
import pytest
import requests
from anyio import to_thread

from tenure.errors import ConfigError, Reason, StaleToken, TenureOver
from tenure.model import Token
from tenure.sinks import MemoryMark
from tenure.sinks.http import JwtKey, JwtSigner, aiohttp_middleware, error_in, fence_httpx, requests_auth
from tenure.web import FencedWSGI, Guard, Route
from tests.web.serving import wsgi

FENCE, SECRET = "etcd://h1/billing", "sixteen bytes at least"
Secret = str | JwtSigner | None


@dataclass
class Term:
    """A tenure that can be over."""

    token: int = 7
    fence: str = FENCE
    over: bool = False

    def check(self) -> None:
        if self.over:
            raise TenureOver(self.token, Reason.LAPSED)


@dataclass
class Peer:
    """A server that notes which headers reached it; ``/to?URL`` sends its client elsewhere."""

    got: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        with self.lock:
            self.got.append((environ["PATH_INFO"], environ.get("HTTP_TENURE_TOKEN")))
        if environ["PATH_INFO"] == "/to":
            start_response("307 Temporary Redirect", [("Location", environ["QUERY_STRING"]), ("Content-Length", "0")])
            return []
        start_response("200 OK", [("Content-Length", "0")])
        return []


@pytest.fixture
def peers() -> Iterator[tuple[Peer, Peer]]:
    with ExitStack() as stack:
        ours, stranger = Peer(), Peer()
        for peer in (ours, stranger):
            peer.url = stack.enter_context(wsgi(peer))
        yield ours, stranger


Post = Callable[[Term, str, str, Secret], Awaitable[tuple[int, Any]]]


async def by_httpx(term: Term, origin: str, url: str, secret: Secret) -> tuple[int, Any]:
    def post() -> httpx.Response:
        with httpx.Client(follow_redirects=True) as client:
            fence_httpx(client, term, origin, secret=secret)
            return client.post(url)

    answer = await to_thread.run_sync(post)
    return answer.status_code, answer.headers


async def by_async_httpx(term: Term, origin: str, url: str, secret: Secret) -> tuple[int, Any]:
    async with httpx.AsyncClient(follow_redirects=True) as client:
        fence_httpx(client, term, origin, secret=secret)
        answer = await client.post(url)
    return answer.status_code, answer.headers


async def by_aiohttp(term: Term, origin: str, url: str, secret: Secret) -> tuple[int, Any]:
    middleware = aiohttp_middleware(term, origin, secret=secret)
    async with aiohttp.ClientSession(middlewares=[middleware]) as session, session.post(url) as answer:
        return answer.status, answer.headers


async def by_requests(term: Term, origin: str, url: str, secret: Secret) -> tuple[int, Any]:
    def post() -> requests.Response:
        with requests.Session() as session:
            session.auth = requests_auth(term, origin, secret=secret)
            return session.post(url, timeout=30)

    answer = await to_thread.run_sync(post)
    return answer.status_code, answer.headers


@pytest.fixture(params=[by_httpx, by_async_httpx, by_aiohttp, by_requests])
def post(request: pytest.FixtureRequest) -> Post:
    return request.param  # type: ignore[no-any-return]


VALUE = "7; fence=etcd%3A%2F%2Fh1%2Fbilling"


def test_every_request_to_the_origin_carries_the_token(post: Post, peers: tuple[Peer, Peer]) -> None:
    ours, _ = peers
    assert anyio.run(post, Term(), ours.url, f"{ours.url}/entries", None)[0] == 200
    assert ours.got == [("/entries", VALUE)]


def test_a_redirect_within_the_origin_carries_it_along(post: Post, peers: tuple[Peer, Peer]) -> None:
    ours, _ = peers
    anyio.run(post, Term(), ours.url, f"{ours.url}/to?/entries", None)
    assert ours.got == [("/to", VALUE), ("/entries", VALUE)]


def test_a_redirect_to_another_origin_never_does_nor_one_that_comes_back_from_there_lacks_it(
    post: Post, peers: tuple[Peer, Peer]
) -> None:
    ours, stranger = peers
    back = f"{ours.url}/entries"
    anyio.run(post, Term(), ours.url, f"{ours.url}/to?{stranger.url}/to?{back}", SECRET)
    assert [path for path, _ in stranger.got] == ["/to"]
    assert [value for _, value in stranger.got] == [None]
    assert [path for path, value in ours.got if value and "signature=" in value] == ["/to", "/entries"]


def test_a_request_to_another_origin_carries_nothing(post: Post, peers: tuple[Peer, Peer]) -> None:
    ours, stranger = peers
    anyio.run(post, Term(), ours.url, f"{stranger.url}/entries", None)
    assert stranger.got == [("/entries", None)]


def test_nothing_is_sent_once_the_tenure_is_over(post: Post, peers: tuple[Peer, Peer]) -> None:
    ours, _ = peers
    with pytest.raises(TenureOver):
        anyio.run(post, Term(over=True), ours.url, f"{ours.url}/entries", None)
    assert ours.got == []


def test_a_refusal_is_read_from_the_answer_of_each_client(post: Post) -> None:
    mark = MemoryMark()
    mark.admit(FENCE, Token(9))
    app = FencedWSGI(Peer(), Guard([Route("/", FENCE)], mark, secrets=[SECRET]))
    with wsgi(app) as url:
        status, headers = anyio.run(post, Term(), url, f"{url}/entries", SECRET)
        assert anyio.run(post, Term(token=9), url, f"{url}/entries", SECRET)[0] == 200
    error = error_in(status, headers, service=url, operation="post", token=7)
    assert isinstance(error, StaleToken)
    assert (status, error.highest) == (409, 9)
    assert error_in(200, {}, service=url, operation="post", token=7) is None


def test_each_client_signs_web_tokens_and_sends_them_nowhere_else(post: Post, peers: tuple[Peer, Peer]) -> None:
    ours, stranger = peers
    signer, key = JwtSigner.shared(SECRET * 2), JwtKey.shared(SECRET * 2)
    anyio.run(post, Term(), ours.url, f"{ours.url}/to?{stranger.url}/to?{ours.url}/entries", signer)
    assert [value for _, value in stranger.got] == [None]
    assert [value is not None and value.count(".") for _, value in ours.got] == [2, 2]
    with wsgi(FencedWSGI(Peer(), Guard([Route("/", FENCE)], MemoryMark(), keys=[key]))) as url:
        assert anyio.run(post, Term(), url, f"{url}/entries", signer)[0] == 200
        status, headers = anyio.run(post, Term(), url, f"{url}/entries", SECRET)
    assert (status, headers["Tenure-Refused"]) == (403, "unsigned")


@pytest.mark.parametrize("origin", ["", "api.example", "file:///x", "http://", "http://x:notaport", "https://[::1"])
def test_what_is_no_origin_is_told_at_once(origin: str) -> None:
    with pytest.raises(ConfigError):
        requests_auth(Term(), origin)


def test_none_of_the_clients_is_imported_before_it_is_used() -> None:
    program = (
        "import sys, tenure.web, tenure.sinks.http\n"
        "print([name for name in ('httpx', 'aiohttp', 'requests', 'starlette', 'boto3', 'jwt', 'cryptography') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"

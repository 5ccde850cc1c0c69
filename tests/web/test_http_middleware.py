"""What the middlewares let through and what they refuse, behind real servers, spoken to in raw HTTP."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route as StarletteRoute

from tenure.errors import ConfigError, OutcomeUnknown, Refused, StaleToken, TenureError, Unreachable, UnverifiedToken
from tenure.model import TOKEN_MAX, Token
from tenure.sinks import HttpSink, MemoryMark
from tenure.sinks.http import Presented, Secret
from tenure.sinks.http.header import value_of
from tenure.web import FencedASGI, FencedWSGI, Guard, Route
from tests.web.service import Rig
from tests.web.serving import asgi, wsgi

FENCE = "etcd://h1,h2/billing é"
SECRETS = ["the old secret of ours", "the new secret of ours"]


@pytest.fixture(params=[asgi, wsgi], ids=["uvicorn", "wsgiref"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    with ExitStack() as stack:
        yield Rig(request.param, stack)


def header(token: int, fence: str = FENCE) -> str:
    return value_of(Presented(Token(token), fence))


def plain(**options: Any) -> Guard:
    return Guard([Route("/", FENCE)], MemoryMark(), **options)


def test_a_token_passes_is_handed_on_and_stale_ones_are_told_the_highest(rig: Rig) -> None:
    rig.start(plain())
    assert rig.ask("/entries", header(7))[::2] == (200, b"7")
    assert rig.ask("/entries", header(9))[::2] == (200, b"9")
    status, headers, body = rig.ask("/entries", header(7))
    assert (status, headers["tenure-highest"], headers["tenure-refused"]) == (409, "9", "stale")
    assert headers["content-type"] == "application/problem+json"
    page = json.loads(body)
    assert (page["status"], page["token"], page["highest"], page["type"]) == (409, "7", "9", "urn:tenure:stale")
    assert rig.ask("/entries", header(TOKEN_MAX))[0] == 200
    assert rig.ask("/entries", header(TOKEN_MAX - 1))[1]["tenure-highest"] == str(TOKEN_MAX)
    assert rig.service.calls == ["/entries"] * 3
    assert rig.guard.refused.stale == 2


MALFORMED = [
    "",
    "7",
    "-7; fence=x",
    "+7; fence=x",
    "07; fence=x",
    "0; fence=x",
    "7.0; fence=x",
    "1e3; fence=x",
    "seven; fence=x",
    "٧; fence=x",
    f"{TOKEN_MAX + 1}; fence=x",
    "9" * 400 + "; fence=x",
    "7; fence=",
    "7; fence=é",
    "7; fence=%zz",
    "7; fence=%ff",
    "7; fence=%c3%a9",
    "7; fence=a%00",
    "7; fence=%61",
    "7;fence=x",
    "7; fence=x; expires=1",
    "7; fence=x; signature=" + "0" * 64,
    "7; fence=x; expires=-1; signature=" + "0" * 64,
    "7; fence=x; fence=y",
    "7; fence=x, 9; fence=x",
    "7; fence=" + "x" * 3000,
]


def test_what_is_not_of_the_grammar_is_refused_and_reaches_nobody(rig: Rig) -> None:
    rig.start(plain())
    rig.ask("/entries", header(3))
    for value in MALFORMED:
        status, headers, _ = rig.ask("/entries", value)
        assert (status, headers["tenure-refused"]) == (400, "malformed"), value
        assert rig.ask("/.well-known/tenure/seal", value)[0] == 400, value
    assert rig.ask("/entries")[:1] == (428,)
    assert rig.ask("/entries", header(7), header(7))[0] == 400
    assert rig.ask("/entries", header(9), header(7))[0] == 400
    assert rig.ask("/entries", header(7, "another"))[1]["tenure-refused"] == "other-fence"
    assert rig.service.calls == ["/entries"]
    assert rig.ask("/entries", header(3))[0] == 200  # Nothing of it has raised the mark.


def test_routes_say_which_election_guards_what(rig: Rig) -> None:
    routes = [Route("/bills", "billing"), Route("/mail", "post", frozenset({"GET", "POST"}))]
    rig.start(Guard(routes, MemoryMark()))
    assert rig.ask("/free")[0] == 200
    assert rig.ask("/billsome")[0] == 200
    assert rig.ask("/bills/7", method="GET")[0] == 200
    for path in ("/bills", "/bills/7", "//bills", "/./bills/7", "/x/../bills", "/%62ills"):
        assert rig.ask(path)[0] == 428, path
    assert rig.ask("/mail", method="GET")[0] == 428
    assert rig.ask("/mail", method="DELETE")[0] == 200
    assert rig.ask("/bills", header(9, "billing"))[0] == 200
    assert rig.ask("/mail", header(2, "post"))[0] == 200  # Another fence: another mark.
    assert rig.ask("/mail", header(9, "billing"))[0] == 403


def test_a_header_without_the_shared_secret_is_worth_nothing(rig: Rig) -> None:
    rig.start(plain(secrets=SECRETS))
    presented = Presented(Token(7), FENCE)
    for secret in SECRETS:
        assert rig.ask("/entries", value_of(Secret(secret).sign(presented)))[0] == 200
    good = value_of(Secret(SECRETS[1]).sign(presented))
    spoofed = {
        "unsigned": [
            header(2**62),
            value_of(Secret("a secret of strangers").sign(presented)),
            good.replace("7; ", "8; ", 1),
            good[:-1] + ("0" if good[-1] != "0" else "1"),
            good.replace("expires=1", "expires=2"),
        ],
        "expired": [value_of(Secret(SECRETS[1]).sign(presented, lifetime_s=-60))],
    }
    for word, values in spoofed.items():
        for value in values:
            for path in ("/entries", "/.well-known/tenure/seal"):
                status, headers, body = rig.ask(path, value)
                assert (status, headers["tenure-refused"]) == (403, word), value
                assert not any(secret.encode() in body for secret in SECRETS)
    assert rig.ask("/entries", good)[0] == 200
    assert "secret of ours" not in repr(rig.guard.__dict__)


def test_a_forged_token_is_refused_and_counted(rig: Rig) -> None:
    rig.start(plain(verify=lambda _, token: token <= 9))
    assert rig.ask("/entries", header(9))[0] == 200
    for path in ("/entries", "/.well-known/tenure/seal"):
        status, headers, _ = rig.ask(path, header(2**62))
        assert (status, headers["tenure-refused"], headers["tenure-highest"]) == (403, "unverified", "9")
    assert rig.guard.refused.unverified == 2
    with pytest.raises(UnverifiedToken):
        anyio.run(HttpSink(rig.url).seal, FENCE, Token(2**62))
    assert rig.ask("/entries", header(9))[0] == 200


def test_a_stale_token_that_the_database_finds_is_the_same_answer(rig: Rig) -> None:
    rig.start(plain())
    status, headers, _ = rig.ask("/database", header(7))
    assert (status, headers["tenure-highest"]) == (409, "8")


def sealing(rig: Rig, token: int, outcome: list[object]) -> threading.Thread:
    def seal() -> None:
        try:
            anyio.run(HttpSink(rig.url).seal, FENCE, Token(token))
            outcome.append("sealed")
        except TenureError as error:
            outcome.append(error)

    thread = threading.Thread(target=seal)
    thread.start()
    return thread


def polled(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + 30
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    return condition()


def test_a_seal_waits_for_older_requests_under_way_and_lets_no_others_in(rig: Rig) -> None:
    rig.start(plain(seal_within_s=60))
    answers: list[int] = []
    slow = threading.Thread(target=lambda: answers.append(rig.ask("/slow", header(7))[0]))
    slow.start()
    assert rig.service.entered.wait(30)
    outcome: list[object] = []
    seal = sealing(rig, 8, outcome)
    # The mark is raised at once, before the wait.
    assert polled(lambda: rig.ask("/entries", header(7))[0] == 409)
    assert rig.ask("/entries", header(8))[0] == 200
    assert outcome == []
    rig.service.let_go.set()
    slow.join()
    seal.join()
    assert (answers, outcome) == ([200], ["sealed"])


class SlowMark(MemoryMark):
    """Has admitted token 7, and takes its time to say so."""

    blocks = True

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.let_go = threading.Event(), threading.Event()

    def admit(self, fence: str, token: Token, *, known_only: bool = False) -> None:
        super().admit(fence, token, known_only=known_only)
        if token == 7:
            self.entered.set()
            assert self.let_go.wait(30)


def test_a_seal_waits_also_for_a_request_that_is_just_being_let_through(rig: Rig) -> None:
    mark = SlowMark()
    rig.start(Guard([Route("/", FENCE)], mark, seal_within_s=60))
    answers: list[int] = []
    slow = threading.Thread(target=lambda: answers.append(rig.ask("/slow", header(7))[0]))
    slow.start()
    assert mark.entered.wait(30)
    outcome: list[object] = []
    seal = sealing(rig, 8, outcome)
    assert polled(lambda: rig.ask("/entries", header(6))[1].get("tenure-highest") == "8")
    mark.let_go.set()
    assert rig.service.entered.wait(30)
    assert outcome == []  # The old request writes now. Whoever sealed must not lead yet.
    rig.service.let_go.set()
    for thread in (slow, seal):
        thread.join()
    assert (answers, outcome) == ([200], ["sealed"])


def test_a_seal_that_waits_too_long_says_so_and_the_mark_stays_raised(rig: Rig) -> None:
    rig.start(plain(seal_within_s=0.05))
    slow = threading.Thread(target=rig.ask, args=("/slow", header(7)))
    slow.start()
    assert rig.service.entered.wait(30)
    with pytest.raises(OutcomeUnknown, match="older requests are still under way"):
        anyio.run(HttpSink(rig.url).seal, FENCE, Token(8))
    assert rig.ask("/entries", header(7))[0] == 409
    rig.service.let_go.set()
    slow.join()
    # Whoever has read the answer may be ahead of the server, which counts a request until after its last byte.
    assert polled(lambda: rig.guard.underway.wait(FENCE, 8, lambda: None))
    anyio.run(HttpSink(rig.url).seal, FENCE, Token(8))
    with pytest.raises(StaleToken):
        anyio.run(HttpSink(rig.url).seal, FENCE, Token(7))
    assert rig.guard.refused.stale == 2


class Gone:
    blocks = True

    def admit(self, fence: str, token: Token, *, known_only: bool = False) -> None:
        raise Unreachable("mark", f"admit {fence} {token} {known_only}", "the disk is gone")


def test_a_mark_that_cannot_be_asked_lets_nobody_in(rig: Rig) -> None:
    rig.start(Guard([Route("/", FENCE)], Gone()))
    status, headers, _ = rig.ask("/entries", header(7))
    assert (status, headers["tenure-refused"], rig.service.calls) == (503, "unavailable", [])
    with pytest.raises(Unreachable):
        anyio.run(HttpSink(rig.url).seal, FENCE, Token(7))


def test_a_service_that_knows_nothing_of_seals_is_not_taken_for_sealed(rig: Rig) -> None:
    rig.start(plain(seal_path="/elsewhere"))
    with pytest.raises(Refused, match="it answered 200"):
        anyio.run(HttpSink(rig.url).seal, FENCE, Token(7))
    with pytest.raises(Unreachable):
        anyio.run(HttpSink("http://127.0.0.1:9").seal, FENCE, Token(7))


@pytest.mark.anyio
async def test_websockets_are_refused_on_guarded_paths_and_lifespans_pass() -> None:
    sent: list[Any] = []
    passed: list[str] = []

    async def app(scope: Any, _: Any, __: Any) -> None:
        passed.append(scope["type"])

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {}

    fenced = FencedASGI(app, Guard([Route("/bills", FENCE)], MemoryMark()))
    await fenced({"type": "websocket", "path": "/bills/live", "headers": []}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008, "reason": "websocket"}]
    await fenced({"type": "websocket", "path": "/free", "headers": []}, receive, send)
    await fenced({"type": "lifespan"}, receive, send)
    assert passed == ["websocket", "lifespan"]


def test_starlette_takes_it_as_any_other_middleware() -> None:
    async def entries(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(request.scope["tenure"].token))

    app = Starlette(routes=[StarletteRoute("/entries", entries, methods=["POST"])])
    app.add_middleware(FencedASGI, guard=plain())
    with asgi(app) as url:
        answer = anyio.run(HttpSink(url).bind(Presented(Token(7), FENCE)).request, "POST", "/entries")
        assert answer.body == b"7"
        anyio.run(HttpSink(url).seal, FENCE, Token(8))
        with pytest.raises(StaleToken):
            anyio.run(HttpSink(url).bind(Presented(Token(7), FENCE)).request, "POST", "/entries")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Guard([], MemoryMark()),
        lambda: Guard([Route("/", FENCE)], MemoryMark(), secrets=["short"]),
        lambda: Guard([Route("/", FENCE)], MemoryMark(), secrets="a secret of sixteen bytes"),
        lambda: Guard([Route("/", FENCE)], MemoryMark(), secrets=[]),
        lambda: Guard([Route("/", FENCE)], MemoryMark(), secrets=[42]),  # type: ignore[list-item]
        lambda: Route("bills", FENCE),
        lambda: Route("/", ""),
        lambda: Route("/", FENCE, frozenset({"post"})),
        lambda: FencedWSGI(lambda *_: [], Guard([Route("/", FENCE)], object())),  # type: ignore[arg-type]
        lambda: HttpSink("ftp://x"),
        lambda: HttpSink("http://ada:pw@x"),
        lambda: HttpSink("http://"),
    ],
)
def test_settings_that_cannot_work_are_told_at_once_and_hide_what_is_secret(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError) as told:
        make()
    assert "short" not in str(told.value)
    assert "a secret of" not in str(told.value)
    assert "pw" not in str(told.value)

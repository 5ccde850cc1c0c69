"""Clients reach the leader through whichever node they know, and through its death."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tenure import Election, MemoryStore, TenureOver, Unreachable
from tenure.errors import ConfigError
from tenure.stores.memory import MemoryEngine
from tenure.testing.engines.ports import claim_ports
from tenure.web import LeaderASGI
from tenure.web.following import AsyncLeaderTransport, LeaderTransport
from tenure.web.pursuit import HOPS_MAX, Fleet, Pursuit

HOST = "127.0.0.1"
Node = tuple["subprocess.Popen[str]", str]
Start = Callable[..., Node]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts nodes of one election, and ends them."""
    nodes: list[Any] = []
    claims: list[Any] = []

    def begin(*options: str) -> Node:
        (claim,) = claim_ports(1, HOST)
        claims.append(claim)
        store = f"sqlite://{tmp_path}/store.db"
        command = [sys.executable, "-m", "tests.control.node_process", store, str(claim.port), *options]
        node = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        nodes.append(node)
        return node, f"http://{HOST}:{claim.port}"

    yield begin
    for node in nodes:
        node.kill()
        node.wait()
        node.stdout.close()
    for claim in claims:
        claim.release()


def leads(node: "subprocess.Popen[str]") -> None:
    assert node.stdout
    assert node.stdout.readline() == "leads\n"


def answers(url: str) -> bool:
    try:
        httpx.get(f"{url}/public")
    except httpx.TransportError:
        return False
    return True


def up(url: str) -> None:
    for _ in range(300):
        if answers(url):
            return
        threading.Event().wait(0.05)
    pytest.fail("it never came up")


def test_a_request_lands_on_the_new_leader_after_the_old_one_was_killed(start: Start) -> None:
    first, first_url = start()
    leads(first)
    _, second_url = start()
    up(first_url)
    up(second_url)
    told = httpx.post(f"{second_url}/jobs")
    assert (told.status_code, told.headers["Tenure-Leader"]) == (421, first_url)
    assert httpx.get(f"{second_url}/public").text.split() == ["/public?", "None", second_url.rpartition(":")[2]]
    with httpx.Client(transport=LeaderTransport([second_url])) as client:
        assert client.post("http://leader/jobs?a=1", content="x").text.split() == [
            "/jobs?a=1",
            "x",
            "1",
            first_url[-5:],
        ]
        os.kill(first.pid, signal.SIGKILL)
        # Its connection is dead and its lease still lasts; the standby refuses until it leads, and then answers. With a key,
        # since a connection that was open may have carried it before it broke.
        answer = client.post("http://leader/jobs", content="y", headers={"Idempotency-Key": "y"})
        assert answer.text.split() == ["/jobs?", "y", "2", second_url[-5:]]

    async def through_the_other_door() -> None:
        nodes = [first_url, second_url]
        async with httpx.AsyncClient(transport=AsyncLeaderTransport(nodes), base_url="http://leader") as client:
            assert (await client.get("/jobs")).text.split() == ["/jobs?", "2", second_url[-5:]]

    anyio.run(through_the_other_door)


def test_a_redirect_leads_plain_clients_to_the_leader_with_path_and_query(start: Start) -> None:
    first, first_url = start()
    leads(first)
    _, second_url = start("--redirect")
    up(second_url)
    up(first_url)
    answer = httpx.post(f"{second_url}/jobs/%C3%A9?a=%20b", content="x", follow_redirects=True)
    assert str(answer.url) == f"{first_url}/jobs/%C3%A9?a=%20b"
    assert answer.text.endswith(first_url[-5:])


@pytest.mark.parametrize(
    ("scope", "target"),
    [
        ({"path": "/a\r\nSet-Cookie: x=1\r\n b?c#d"}, "/a%0D%0ASet-Cookie:%20x=1%0D%0A%20b%3Fc%23d"),
        ({"path": "/50% é", "raw_path": None, "query_string": b"a=%20b"}, "/50%25%20%C3%A9?a=%20b"),
        ({"path": "/a/b", "raw_path": b"/a%2Fb|\xe9", "query_string": b"x[]=1\r\n"}, "/a%2Fb|%E9?x[]=1%0D%0A"),
        ({"path": "@elsewhere/", "raw_path": b"@elsewhere/"}, "/@elsewhere/"),
    ],
)
def test_a_redirect_goes_to_the_leader_and_nothing_in_a_path_ends_it(scope: dict[str, Any], target: str) -> None:
    sent: list[Any] = []

    async def nobody(*_: Any) -> Any:
        pytest.fail("it was handed on")

    async def send(message: Any) -> None:
        sent.append(message)

    async def run() -> None:
        store = MemoryStore()
        gate = LeaderASGI(nobody, Election(store, "api"), redirect=True)
        async with Election(store, "api", advertise="http://here").once():
            await gate({"type": "http", "method": "GET", **scope}, nobody, send)

    anyio.run(run)
    assert dict(sent[0]["headers"])[b"location"].decode() == f"http://here{target}"


class Broken(MemoryStore):
    async def read(self, election: str) -> Any:
        raise Unreachable("memory", "read", election)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_without_a_leader_that_can_be_named_it_says_so_and_when_to_ask_again(backend: str) -> None:
    engine = MemoryEngine()

    async def app(*_: Any) -> None:
        pytest.fail("it was handed on")

    async def ask(gate: LeaderASGI) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(gate), base_url="http://node") as client:
            return await client.get("/")

    async def run() -> None:
        store = MemoryStore(engine)

        def gate(store: MemoryStore = store) -> LeaderASGI:
            return LeaderASGI(app, Election(store, "api"))

        for nobody in (gate(), gate(Broken())):
            answer = await ask(nobody)
            assert answer.status_code == 503
            assert (answer.headers["Tenure-Refused"], answer.headers["Retry-After"]) == ("no-leader", "1")
        closed: list[Any] = []

        async def receive() -> Any:
            pytest.fail("it was listened to")

        async def send(message: Any) -> None:
            closed.append(message)

        await gate()({"type": "websocket", "path": "/"}, receive, send)
        assert (closed[0]["type"], closed[0]["code"]) == ("websocket.close", 1013)
        for address in ("", "10.0.0.5:80", "http://user:secret@h", "http://h\u00e9"):
            async with Election(store, "api", advertise=address).once():
                assert (await ask(gate())).status_code == 503
        election = Election(store, "api", advertise="http://here")
        own = LeaderASGI(app, election)
        async with election.once() as term:
            assert (await ask(own)).status_code == 503, "it leads, and is not ready"
            assert (await ask(gate())).headers["Tenure-Leader"] == "http://here"
            with own.serving(term):
                engine.delete("api")
                try:
                    await anyio.sleep_forever()  # loss ends it
                finally:
                    with anyio.CancelScope(shield=True):
                        assert (await ask(own)).status_code == 503, "it is over, and the application hears of nobody"

    async def whole() -> None:
        with pytest.raises(TenureOver):
            await run()

    anyio.run(whole, backend=backend)


def pursuit(*, repeatable: bool = False, nodes: tuple[str, ...] = ("http://a", "http://b")) -> Pursuit:
    return Pursuit(Fleet(nodes, 10), repeatable=repeatable, now_s=0)


def test_what_was_sent_and_not_answered_is_sent_again_only_if_it_may_be() -> None:
    assert pursuit().failed(0, sent=True) is None
    assert pursuit().failed(0, sent=False) is not None
    assert pursuit(repeatable=True).failed(0, sent=True) is not None
    own_503 = pursuit().answered(503, {}, 0)
    assert own_503 is None, "a 503 of the application may have done something"


def test_it_is_bounded_in_time_and_in_hops_and_pauses_between_nodes_that_name_each_other() -> None:
    chase = pursuit()
    assert chase.failed(10, sent=False) is None
    assert pursuit().answered(421, {"Tenure-Leader": "http://b"}, 10) is None
    chase = pursuit()
    names = [f"http://{'ab'[hop % 2]}" for hop in range(2 * HOPS_MAX)]
    pauses = [chase.answered(421, {"Tenure-Leader": name}, 0) for name in names]
    assert any(pause for pause in pauses), "two that name each other are not asked for ever without a rest"
    assert None not in pauses


def test_nobody_is_led_from_https_to_http_nor_to_what_is_no_address() -> None:
    for name in ("http://c", "rubbish", "https://u:p@c", "https://c?x"):
        chase = pursuit(nodes=("https://a", "https://b"))
        assert chase.answered(421, {"Tenure-Leader": name}, 0) is None
        assert chase.target == "https://a"
    for nodes in ((), ("ftp://x",), ("http://u:p@x",)):
        with pytest.raises(ConfigError):
            Fleet(nodes, 10)

"""Workers as real processes, over real HTTP: killed between accepting and carrying out, and left alone by everybody."""

import http.client
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from tenure import Election, Tenure, open_store
from tenure.apps.control import AcceptedOrder, Delivery, HttpChannel, Order, Receipt, Worker, carry_out, deliver_to_all
from tenure.apps.control.order import DELIVERY_BYTES_MAX
from tenure.errors import ConfigError, Refused, StaleToken, TenureOver, Unreachable
from tenure.sinks.http import HttpSink, Presented
from tenure.testing.engines.ports import claim_ports
from tenure.web import OrdersWSGI, serving
from tests.control.test_orders import FENCE, by


@contextmanager
def process(folder: Path, *options: str) -> Iterator[str]:
    """Run a worker; it is killed with -9 at the end. Gives its URL."""
    command = [sys.executable, "-m", "tests.control.worker_process", str(folder), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout
        try:
            yield worker.stdout.readline().strip()
        finally:
            os.kill(worker.pid, signal.SIGKILL)


def deliver(url: str, token: int, orders: dict[str, Any], *, complete: bool = False) -> Receipt:
    async def run() -> Receipt:
        return await HttpChannel(url).deliver(by(token), Delivery.of(orders, complete=complete))

    return anyio.run(run)


def rows(path: Path, query: str) -> list[Any]:
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as found:
            return found.execute(query).fetchall()
    except sqlite3.OperationalError:  # not made yet
        return []


def wait_until(holds: Callable[[], bool]) -> None:
    until = threading.Event()
    for _ in range(600):
        if holds():
            return
        until.wait(0.05)
    pytest.fail("it never came true")


def test_a_worker_killed_between_accepting_and_carrying_out_carries_out_once_after_its_restart(tmp_path: Path) -> None:
    with process(tmp_path, "--hold") as url:
        assert deliver(url, 7, {"a": 1, "b": 2}).accepted == ("a", "b")
    with process(tmp_path) as url:
        done = "SELECT id, token FROM carried_out ORDER BY id"
        wait_until(lambda: rows(tmp_path / "journal.db", done) == [("a", 7), ("b", 7)])
        receipt = deliver(url, 8, {"a": 1, "b": 2, "c": 3})  # The next leader sends everything again.
        assert receipt == Receipt(accepted=("c",), over=("a", "b"))
        wait_until(lambda: ("c", 8) in rows(tmp_path / "journal.db", done))
        with pytest.raises(StaleToken, match="highest seen is 8"):
            deliver(url, 7, {"d": 4})
    with process(tmp_path) as url, pytest.raises(StaleToken):
        deliver(url, 7, {"e": 5})
    assert rows(tmp_path / "journal.db", done) == [("a", 7), ("b", 7), ("c", 8)]


def test_workers_go_on_with_their_last_orders_while_leader_and_store_are_gone(tmp_path: Path) -> None:
    store_file = tmp_path / "store.db"

    async def lead_for_a_moment(url: str) -> None:
        async def give_order(term: Tenure) -> None:
            channels = {"w": HttpChannel(url)}
            delivery = Delivery.of({"crawl": "standing"}, complete=True)
            found = await deliver_to_all(term, channels, {"w": delivery})
            assert found == {"w": Receipt(accepted=("crawl",))}

        async with open_store(f"sqlite://{store_file}") as store:
            await Election(store, "crawl").lead(give_order)

    counts, count = tmp_path / "counts.db", "SELECT count(*) FROM count"
    with process(tmp_path) as url:
        anyio.run(lead_for_a_moment, url)
        for leftover in tmp_path.glob("store.db*"):
            leftover.unlink()
        wait_until(lambda: rows(counts, count) >= [(20,)])
        status = _get(url)
        assert [order["id"] for order in status["orders"]] == ["crawl"]
        assert min(status["staleness_s"].values()) > 0.2, "it says how long nobody has led it"
        twin = subprocess.run(
            [sys.executable, "-m", "tests.control.worker_process", str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "is carried out by another process already" in twin.stderr.splitlines()[-1]
    with process(tmp_path) as url:  # And through a crash of its own, with nobody there to ask.
        wait_until(lambda: rows(counts, count) >= [(40,)])
        fence = _get(url)["orders"][0]["fence"]

        async def withdraw() -> Receipt:
            return await HttpChannel(url).deliver(by(99, fence), Delivery.of([], complete=True))

        assert anyio.run(withdraw).withdrawn == ("crawl",)
        wait_until(lambda: not _get(url)["orders"])


def _get(url: str) -> Any:
    split = urlsplit(url)
    link = http.client.HTTPConnection(split.hostname or "", split.port or 0, timeout=30)
    link.request("GET", "/orders")
    return json.loads(link.getresponse().read())


def _post(url: str, body: bytes, length: int | None = None) -> tuple[int, Any]:
    split = urlsplit(url)
    link = http.client.HTTPConnection(split.hostname or "", split.port or 0, timeout=30)
    headers = {
        "Tenure-Token": "7; fence=etcd%3A%2F%2Fh1%2Fcrawl",
        "Content-Length": str(len(body) if length is None else length),
    }
    link.request("POST", "/orders", body, headers)
    answer = link.getresponse()
    return answer.status, json.loads(answer.read())


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Worker, str]]:
    worker = Worker(tmp_path / "journal.db")
    with serving(OrdersWSGI(worker, FENCE)) as url:
        yield worker, url
    worker.close()


def test_an_order_that_is_too_large_is_refused_by_the_worker_too_and_nothing_of_its_delivery_is_taken(
    served: tuple[Worker, str],
) -> None:
    worker, url = served
    large = json.dumps(
        {"number": 1, "complete": False, "orders": [{"id": "a", "payload": 1}, {"id": "b", "payload": "x" * 70_000}]}
    )
    status, page = _post(url, large.encode())
    assert status == 422
    assert page["detail"] == (
        "order 'b' = 70002 bytes: must have at most 65536 as JSON: keep it elsewhere, and send where it is"
    )
    assert worker.orders() == []
    assert _post(url, b" " * 2**16, DELIVERY_BYTES_MAX + 1)[0] == 413
    assert _post(url, b"rubbish")[0] == 422
    assert _post(url, b'{"number": 1, "complete": false, "orders": []}')[0] == 200


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"Transfer-Encoding: chunked", 411),
        (b"Connection: close", 411),
        (b"Content-Length: many", 400),
        (b"Content-Length: %d\r\nExpect: 100-continue" % (DELIVERY_BYTES_MAX + 1), 413),
    ],
)
def test_who_does_not_say_how_long_its_delivery_is_or_says_too_long_is_answered_before_anything_of_it_comes(
    served: tuple[Worker, str], head: bytes, status: int
) -> None:
    split = urlsplit(served[1])
    token = b"Tenure-Token: 7; fence=etcd%3A%2F%2Fh1%2Fcrawl"
    with socket.create_connection((split.hostname or "", split.port or 0), timeout=20) as client:  # It waits for 30 s.
        client.sendall(b"\r\n".join((b"POST /orders HTTP/1.1", token, head, b"", b"")))
        answer = client.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.0 %d " % status)
    assert b'{"detail": ' in answer


def test_who_sends_its_delivery_in_parts_is_told_to_say_how_long_it_is(served: tuple[Worker, str]) -> None:
    split = urlsplit(served[1])
    link = http.client.HTTPConnection(split.hostname or "", split.port or 0, timeout=20)
    parts = iter([b" " * 2**16] * 64)
    link.request("POST", "/orders", parts, {"Tenure-Token": "7; fence=etcd%3A%2F%2Fh1%2Fcrawl"}, encode_chunked=True)
    answer = link.getresponse()
    assert (answer.status, json.loads(answer.read())["detail"]) == (411, "must say how long it is, by a Content-Length")


def test_of_deliveries_of_which_one_is_too_large_none_is_sent(served: tuple[Worker, str], tmp_path: Path) -> None:
    worker, url = served
    other = Worker(tmp_path / "other.db")

    async def run(other_url: str) -> None:
        channels = {"w1": HttpChannel(url), "w2": HttpChannel(other_url)}
        large = {str(number): "x" * 60_000 for number in range(100)}
        with pytest.raises(ConfigError, match="send it in parts"):
            await deliver_to_all(by(7), channels, {"w1": Delivery.of({"a": 1}), "w2": Delivery.of(large)})

    with serving(OrdersWSGI(other, FENCE)) as other_url:
        anyio.run(run, other_url)
    assert [worker.orders(), other.orders()] == [[], []]
    other.close()


def test_a_leaders_errors_say_what_is_certain(served: tuple[Worker, str], tmp_path: Path) -> None:
    _, url = served
    (claim,) = claim_ports(1, "127.0.0.1")
    nobody = HttpChannel(f"http://127.0.0.1:{claim.port}")

    async def run() -> None:
        await HttpChannel(url).deliver(by(7), Delivery.of({"a": 1}))
        with pytest.raises(Refused, match=r"answered 422: .*known with another payload"):
            await HttpChannel(url).deliver(by(7), Delivery.of({"a": 2}))
        with pytest.raises(Refused):  # another election's leader, who has nothing to say here
            await HttpChannel(url).deliver(by(7, "etcd://h1/other"), Delivery.of({"b": 2}))
        with pytest.raises(Unreachable):
            await nobody.deliver(by(7), Delivery())
        channels = {"w": HttpChannel(url), "gone": nobody}
        found = await deliver_to_all(by(8), channels, {"w": Delivery.of({"b": 1}), "gone": Delivery()})
        assert found["w"] == Receipt(accepted=("b",))
        assert isinstance(found["gone"], Unreachable)
        with pytest.raises(StaleToken):
            await deliver_to_all(by(7), channels, {name: Delivery() for name in channels})
        await HttpSink(url).seal(FENCE, 9)  # type: ignore[arg-type]
        with pytest.raises(StaleToken, match="highest seen is 9"):
            await HttpChannel(url).deliver(by(8), Delivery())
        async with open_store("memory://") as store:
            async with Election(store, "crawl").once() as term:
                pass
            with pytest.raises(TenureOver):  # known before anything is sent
                await HttpChannel(url).deliver(term, Delivery())
            with pytest.raises(TenureOver):  # as it is, and not in a group: the body's end is then a loss
                await deliver_to_all(term, channels, {name: Delivery() for name in channels})
        with pytest.raises(ConfigError, match="channels to"):
            await deliver_to_all(by(8), channels, {"nobody": Delivery()})
        with pytest.raises(ConfigError, match="order 'a'"):
            Order("a", "x" * 70_000)

    anyio.run(run)
    claim.release()
    signed = OrdersWSGI(Worker(tmp_path / "signed.db"), FENCE, secrets=["sixteen bytes at least"])

    async def with_and_without(url: str) -> None:
        with pytest.raises(Refused):
            await HttpChannel(url).deliver(by(7), Delivery.of({"a": 1}))
        signing = HttpChannel(url, secret="sixteen bytes at least")
        assert (await signing.deliver(by(7), Delivery.of({"a": 1}))).accepted == ("a",)

    with serving(signed) as signed_url:
        anyio.run(with_and_without, signed_url)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_what_is_withdrawn_is_cancelled_and_what_returns_is_done(backend: str, tmp_path: Path) -> None:
    worker = Worker(tmp_path / "journal.db")
    happened: list[str] = []
    said, heard = anyio.create_memory_object_stream[str](10)

    async def execute(order: AcceptedOrder) -> None:
        said.send_nowait(f"begins {order.id}")
        if order.payload == "standing":
            try:
                await anyio.sleep_forever()
            finally:
                said.send_nowait(f"leaves {order.id}")

    async def until(what: str) -> None:
        while what not in happened:
            happened.append(await heard.receive())

    async def run() -> None:
        take = worker.take
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(carry_out, worker, execute)
                await anyio.to_thread.run_sync(take, by(7), Delivery.of({"s": "standing", "once": 1}))
                await until("begins s")
                await until("begins once")
                await anyio.to_thread.run_sync(take, by(8), Delivery.of({"t": "standing"}, complete=True))
                await until("leaves s")
                await until("begins t")
                tasks.cancel_scope.cancel()

    with said, heard:
        anyio.run(run, backend=backend)
    assert [order.id for order in worker.orders()] == ["t"]
    assert happened.count("begins once") == 1
    worker.close()


def test_a_service_of_another_kind_is_refused_and_not_taken_for_a_worker() -> None:
    def app(_: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Length", "2")])
        return [b"{}"]

    with serving(app) as url:

        async def run() -> None:
            with pytest.raises(Refused, match="must be a worker's answer"):
                await HttpChannel(url).deliver(Presented(7, FENCE), Delivery())  # type: ignore[arg-type]

        anyio.run(run)
    with pytest.raises(ConfigError, match="cannot be listened at"), serving(app, port=70_000):
        pytest.fail("it listened")


def test_a_journal_that_cannot_be_read_any_more_stops_nothing_that_is_being_done(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "journal.db")
    worker.take(by(7), Delivery.of({"s": "standing"}))
    said, heard = anyio.create_memory_object_stream[None](1)
    done: list[None] = []

    async def execute(_: AcceptedOrder) -> None:
        while True:
            await said.send(None)

    async def run() -> None:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(carry_out, worker, execute)
                await heard.receive()
                worker.close()
                until = anyio.current_time() + 1.5  # It looks again in that time, and finds nothing to read.
                while anyio.current_time() < until:
                    await heard.receive()
                    done.append(None)
                    await anyio.sleep(0.01)
                tasks.cancel_scope.cancel()

    with said, heard:
        anyio.run(run)
    assert len(done) > 10

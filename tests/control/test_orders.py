"""What a worker takes: the order of leaders, of deliveries and of restarts, and that it is all or nothing."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from anyio import to_thread

from tenure import MemoryStore, Token, VirtualClock, granted_by
from tenure.apps.control import AcceptedOrder, Delivery, HttpChannel, Order, Receipt, Worker
from tenure.apps.control.order import DELIVERY_BYTES_MAX, DELIVERY_ORDERS_MAX, ORDER_BYTES_MAX
from tenure.errors import ConfigError, Refused, StaleToken, StoreError, Unreachable, UnverifiedToken
from tenure.sinks import SQLiteSink
from tenure.sinks.marks import connect_durably
from tenure.web import OrdersWSGI, serving

FENCE = "etcd://h1/crawl"


def by(token: int, fence: str = FENCE) -> SimpleNamespace:
    return SimpleNamespace(token=token, fence=fence)


def finish(worker: Worker, id_: str) -> None:
    (order,) = [order for order in worker.orders() if order.id == id_]
    assert worker.finish(order)


def ids(worker: Worker) -> list[str]:
    return [order.id for order in worker.orders()]


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    made = Worker(tmp_path / "journal.db")
    yield made
    made.close()


def test_an_order_is_taken_once_however_often_it_comes_and_whoever_sends_it(worker: Worker) -> None:
    assert worker.take(by(7), Delivery.of({"a": 1, "b": 2})) == Receipt(accepted=("a", "b"))
    assert worker.take(by(7), Delivery.of({"a": 1})) == Receipt(known=("a",))
    assert worker.take(by(8), Delivery.of({"b": 2, "c": 3})) == Receipt(accepted=("c",), known=("b",))
    assert [(order.id, order.token, order.payload) for order in worker.orders()] == [
        ("a", 7, 1),
        ("b", 7, 2),
        ("c", 8, 3),
    ]
    a, _, _ = worker.orders()
    assert worker.finish(a)
    assert not worker.finish(a)
    assert worker.take(by(9), Delivery.of({"a": 1})) == Receipt(over=("a",)), "done under an older leader is done"
    assert ids(worker) == ["b", "c"]


def test_what_was_taken_and_what_is_over_outlive_a_restart(tmp_path: Path) -> None:
    for token, taken in ((7, Receipt(accepted=("a", "b"))), (8, Receipt(known=("b",), over=("a",)))):
        worker = Worker(tmp_path / "journal.db")
        receipt = worker.take(by(token), Delivery.of({"a": 1, "b": 2}))
        assert (set(receipt.accepted), receipt.known, receipt.over) == (set(taken.accepted), taken.known, taken.over)
        if token == 7:
            worker.finish(worker.orders()[0])
        with pytest.raises(StaleToken):
            worker.take(by(token - 1), Delivery.of({"late": 1}))
        worker.close()


def test_after_a_seal_nothing_older_is_taken_and_nothing_is_forgotten(worker: Worker) -> None:
    worker.take(by(7), Delivery.of({"a": 1}))
    worker.admit(FENCE, Token(8))
    with pytest.raises(StaleToken, match="highest seen is 8"):
        worker.take(by(7), Delivery.of({"b": 1}, complete=True))
    assert ids(worker) == ["a"], "the last orders stay in force until somebody who counts withdraws them"
    assert worker.refused.stale == 1


def test_a_complete_delivery_withdraws_what_it_does_not_name_and_that_does_not_come_back(worker: Worker) -> None:
    delayed = Delivery.of({"a": 1, "b": 1}, complete=True)
    worker.take(by(7), delayed)
    assert worker.take(by(7), Delivery.of({"b": 1}, complete=True)) == Receipt(known=("b",), withdrawn=("a",))
    with pytest.raises(Refused, match="comes late"):
        worker.take(by(7), delayed)  # a request that was delayed on its way
    assert worker.take(by(8), Delivery.of({"a": 1, "b": 1}, complete=True)) == Receipt(known=("b",), over=("a",))
    assert worker.take(by(8), Delivery()) == Receipt(), "none, and not complete, withdraws nothing"
    assert ids(worker) == ["b"]
    assert worker.take(by(8), Delivery.of([], complete=True)) == Receipt(withdrawn=("b",))


def test_a_delivery_that_is_sent_again_is_acknowledged_again_and_changes_nothing(worker: Worker) -> None:
    delivery = Delivery.of({"a": 1}, complete=True)
    assert worker.take(by(7), delivery) == Receipt(accepted=("a",))
    assert worker.take(by(7), delivery) == Receipt(known=("a",))


def test_two_elections_steer_one_worker_and_know_nothing_of_each_other(worker: Worker) -> None:
    one, other = by(70, "etcd://h1/crawl"), by(3, "etcd://h1/index")
    worker.take(one, Delivery.of({"a": 1}))
    worker.take(other, Delivery.of({"a": 2}, complete=True))
    assert [(order.fence, order.payload) for order in worker.orders()] == [(one.fence, 1), (other.fence, 2)]
    worker.take(other, Delivery.of([], complete=True))
    assert [order.fence for order in worker.orders()] == [one.fence]
    with pytest.raises(StaleToken):
        worker.take(by(2, other.fence), Delivery.of({"b": 1}))


@pytest.mark.parametrize(
    ("delivery", "match"),
    [
        (lambda: Delivery.of({"new": 1, "a": "other"}), "known with another payload"),
        (lambda: Delivery.of({str(number): 1 for number in range(4)}), "at most 3 may"),
    ],
)
def test_of_a_delivery_that_is_not_taken_nothing_counts_but_its_token_which_outlives_a_restart(
    tmp_path: Path, delivery: Any, match: str
) -> None:
    worker = Worker(tmp_path / "journal.db", orders_max=3)
    worker.take(by(7), Delivery.of({"a": 1}))
    with pytest.raises(Refused, match=match):
        worker.take(by(8), delivery())
    worker.close()
    worker = Worker(tmp_path / "journal.db", orders_max=3)
    assert ids(worker) == ["a"]
    with pytest.raises(StaleToken, match="highest seen is 8"):
        worker.take(by(7), Delivery.of({"stale": 1}))
    assert worker.take(by(8), Delivery.of({"new": 1})) == Receipt(accepted=("new",))
    worker.close()


def test_a_delivery_that_was_not_taken_is_new_when_it_is_sent_again(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "journal.db", orders_max=1)
    worker.take(by(7), Delivery.of({"a": 1}))
    first, second = Delivery.of({"b": 1}), Delivery.of({"b": 1}, complete=True)
    with pytest.raises(Refused, match="at most 1 may"):
        worker.take(by(8), first)
    assert worker.finish(worker.orders()[0])
    assert worker.take(by(8), first) == Receipt(accepted=("b",))
    with pytest.raises(Refused, match="at most 1 may"):
        worker.take(by(8), Delivery.of({"c": 1}))
    assert worker.take(by(8), second) == Receipt(known=("b",)), "what was not taken makes nothing late"
    worker.close()


BAD: list[tuple[Any, str]] = [
    (lambda: Order("a", "x" * ORDER_BYTES_MAX), r"order 'a' = 65538 bytes: must have at most 65536 as JSON"),
    (lambda: Order("", 1), "must be printable text of 1 to 200 bytes"),
    (lambda: Order("a\n", 1), "must be printable"),
    (lambda: Order("é" * 101, 1), "must be printable"),
    (lambda: Order("a", b"bytes"), "must be JSON; bytes go as base64"),
    (lambda: Order("a", float("nan")), "must be JSON"),
    (lambda: Delivery((Order("a", 1), Order("a", 2))), "two orders 'a'"),
    (lambda: Delivery.of({str(number): 1 for number in range(DELIVERY_ORDERS_MAX + 1)}), "at most 1000"),
    (lambda: Delivery(number=0), "must be from 1 to"),
    (lambda: Delivery.of({str(n): "x" * 60_000 for n in range(100)}), "send it in parts"),
    (lambda: Delivery.from_json(b"{"), "must be JSON"),
    (lambda: Delivery.from_json(b"[" * 100_000), "must be JSON"),
    (lambda: Delivery.from_json(b"[]"), "must be an object of number, complete and orders"),
    (lambda: Delivery.from_json(b'{"number": 1, "complete": 1, "orders": []}'), "true or false"),
    (lambda: Delivery.from_json(b'{"number": 1.5, "complete": true, "orders": []}'), "must be from 1 to"),
    (lambda: Delivery.from_json(b'{"number": 1, "complete": true, "orders": [{"id": 1, "payload": 1}]}'), "printable"),
    (lambda: Delivery.from_json(b'{"number": 1, "complete": true, "orders": [1]}'), "objects of id and payload"),
    (lambda: Receipt.from_json(b"{}"), "must be a worker's answer"),
]


@pytest.mark.parametrize(("make", "match"), BAD)
def test_bad_input_is_one_line_with_the_value_and_the_rule(make: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match) as raised:
        make()
    assert "\n" not in str(raised.value)


def test_the_largest_delivery_may_be_sent_and_taken_twice_and_one_more_byte_is_refused_where_it_is_made(
    worker: Worker,
) -> None:
    payloads = {f"{number:02}": "x" * 65_000 for number in range(64)}
    room = DELIVERY_BYTES_MAX - len(Delivery.of(payloads, complete=True).to_json())
    fillers = {f"filler {number}": "x" * (room // 2 - 40) for number in range(2)}
    room = DELIVERY_BYTES_MAX - len(Delivery.of(payloads | fillers, complete=True).to_json())
    fillers["filler 0"] += "x" * room
    largest = Delivery.of(payloads | fillers, complete=True)
    assert len(largest.to_json()) == DELIVERY_BYTES_MAX
    assert len(worker.take(by(7), largest).accepted) == len(worker.take(by(7), largest).known) == len(largest.orders)
    fillers["filler 0"] += "x"
    with pytest.raises(ConfigError, match=f"delivery = {DELIVERY_BYTES_MAX + 1} bytes: must have at most"):
        Delivery.of(payloads | fillers, complete=True)


def test_deliveries_and_receipts_survive_the_wire() -> None:
    delivery = Delivery.of({"a": {"b": [1, "é", None]}}, complete=True)
    assert Delivery.from_json(delivery.to_json()) == delivery
    receipt = Receipt(("a",), ("b",), (), ("c",))
    assert Receipt.from_json(receipt.to_json()) == receipt


def test_staleness_counts_from_the_last_word_of_a_leader_that_counts_and_through_a_restart(tmp_path: Path) -> None:
    clock = VirtualClock(10**12)
    worker = Worker(tmp_path / "journal.db", clock=clock)
    assert worker.staleness_s() == {}
    worker.take(by(7), Delivery())
    clock.advance(5 * 10**9)
    with pytest.raises(StaleToken):
        worker.take(by(6), Delivery())
    worker.close()
    worker = Worker(tmp_path / "journal.db", clock=clock)
    assert worker.staleness_s() == {FENCE: 5}
    worker.admit(FENCE, Token(8))
    assert worker.staleness_s() == {FENCE: 0}
    worker.close()
    with sqlite3.connect(tmp_path / "journal.db") as other_boot:
        other_boot.execute("UPDATE tenure_heard SET clock = 'of another boot'")
    other_boot.close()
    worker = Worker(tmp_path / "journal.db", clock=clock)
    assert worker.staleness_s() == {FENCE: 1005}, "at least as long as this boot lasts"
    worker.close()


def test_a_full_disk_refuses_and_takes_nothing_and_what_is_in_force_stays(tmp_path: Path) -> None:
    def connect() -> sqlite3.Connection:
        connection = connect_durably(str(tmp_path / "journal.db"))
        connection.execute("PRAGMA max_page_count = 24")
        return connection

    worker = Worker(connect)
    worker.take(by(7), Delivery.of({"a": 1}))
    with pytest.raises(StoreError, match="full"):
        worker.take(by(8), Delivery.of({f"b{number}": "x" * 9000 for number in range(20)}))
    assert ids(worker) == ["a"]
    assert worker.take(by(7), Delivery.of({"c": 1})) == Receipt(accepted=("c",)), "the mark was not raised either"

    async def deliver(url: str) -> None:
        with pytest.raises(Unreachable):  # 503: nothing was taken, so it may be sent again
            await HttpChannel(url).deliver(by(7), Delivery.of({f"d{number}": "x" * 9000 for number in range(20)}))

    with serving(OrdersWSGI(worker, FENCE)) as url:
        anyio.run(deliver, url)
    assert ids(worker) == ["a", "c"]
    worker.close()


def test_a_forged_token_is_refused_and_locks_nobody_out(tmp_path: Path) -> None:
    async def run() -> None:
        store = MemoryStore()
        verify = granted_by(store)
        worker = Worker(tmp_path / "journal.db", verify=verify)
        from tenure import Election

        async with Election(store, "crawl").once() as term:
            assert await to_thread.run_sync(worker.take, term, Delivery.of({"a": 1})) == Receipt(accepted=("a",))
            with pytest.raises(UnverifiedToken):
                await to_thread.run_sync(worker.take, by(2**60, term.fence), Delivery.of({"b": 1}))
            assert await to_thread.run_sync(worker.take, term, Delivery.of({"c": 1})) == Receipt(accepted=("c",))
        assert worker.refused.unverified == 1
        worker.close()

    anyio.run(run)


def test_what_an_order_brings_about_is_written_with_its_end_or_not_at_all(worker: Worker, tmp_path: Path) -> None:
    worker.take(by(7), Delivery.of({"a": 1, "b": 2}))
    a, b = worker.orders()

    def write(db: sqlite3.Connection, order: AcceptedOrder, *, breaks: bool = False) -> None:
        db.execute("CREATE TABLE IF NOT EXISTS made (id TEXT)")
        db.execute("INSERT INTO made VALUES (?)", (order.id,))
        if breaks:
            raise OSError("power cut")

    with pytest.raises(OSError, match="power cut"):
        worker.finish(a, lambda db: write(db, a, breaks=True))
    assert worker.finish(a, lambda db: write(db, a))
    assert not worker.finish(a, lambda db: write(db, a))
    worker.take(by(8), Delivery.of([], complete=True))
    assert not worker.finish(b, lambda db: write(db, b)), "it was withdrawn meanwhile"
    with sqlite3.connect(tmp_path / "journal.db") as look:
        assert look.execute("SELECT id FROM made").fetchall() == [("a",)]
    look.close()


def test_whoever_was_cut_off_carries_out_old_orders_and_a_fence_refuses_what_it_writes(
    worker: Worker, tmp_path: Path
) -> None:
    worker.take(by(7), Delivery.of({"a": 1}))
    (order,) = worker.orders()
    with SQLiteSink(tmp_path / "sink.db") as sink:
        with sink.transaction(order) as db:
            db.execute("CREATE TABLE made (id TEXT)")
        anyio.run(sink.seal, FENCE, Token(8))  # A leader that this worker has not heard of.
        with pytest.raises(StaleToken), sink.transaction(order):
            pytest.fail("it wrote")


def test_only_so_many_ids_are_remembered(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "journal.db", remembered=2)
    for id_ in "abcd":
        worker.take(by(7), Delivery.of({id_: 1}, complete=True))
    assert worker.take(by(7), Delivery.of({"b": 1, "c": 1, "d": 1})) == Receipt(known=("d",), over=("b", "c"))
    assert worker.take(by(7), Delivery.of({"a": 1})) == Receipt(accepted=("a",)), "forgotten, as the limit says"
    worker.close()


@pytest.mark.parametrize("withdrawn", [False, True])
def test_how_long_an_id_is_remembered_counts_from_its_end_and_not_from_when_it_came(
    tmp_path: Path, *, withdrawn: bool
) -> None:
    worker = Worker(tmp_path / "journal.db", remembered=2)
    worker.take(by(7), Delivery.of({"long": 1}))
    for id_ in "abc":
        worker.take(by(7), Delivery.of({id_: 1}))
        finish(worker, id_)
    if not withdrawn:
        finish(worker, "long")
    worker.take(by(7), Delivery.of({"x": 1}, complete=withdrawn))
    assert worker.take(by(8), Delivery.of({"long": 1, "c": 1})) == Receipt(over=("long", "c")), "it would be done again"
    assert worker.take(by(8), Delivery.of({"b": 1})) == Receipt(accepted=("b",)), "forgotten, as the limit says"
    worker.close()


def test_a_journal_that_knows_no_order_of_ends_is_brought_up_to_date_and_forgets_nothing(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "journal.db") as old:
        old.execute(
            "CREATE TABLE tenure_order (came INTEGER PRIMARY KEY AUTOINCREMENT, fence TEXT NOT NULL, id TEXT NOT NULL, "
            "token INTEGER NOT NULL, payload TEXT NOT NULL, state INTEGER NOT NULL, UNIQUE (fence, id))"
        )
        rows = [(FENCE, "open", 0), (FENCE, "done", 1), (FENCE, "withdrawn", 2)]
        old.executemany("INSERT INTO tenure_order (fence, id, token, payload, state) VALUES (?, ?, 7, '1', ?)", rows)
    old.close()
    for _ in range(2):
        worker = Worker(tmp_path / "journal.db", remembered=2)
        again = worker.take(by(7), Delivery.of({"open": 1, "done": 1, "withdrawn": 1}))
        assert again == Receipt(known=("open",), over=("done", "withdrawn"))
        worker.close()
    worker = Worker(tmp_path / "journal.db", remembered=2)
    finish(worker, "open")
    worker.take(by(7), Delivery.of({"x": 1}))
    again = worker.take(by(8), Delivery.of({"open": 1, "done": 1, "withdrawn": 1}))
    assert again == Receipt(accepted=("done",), over=("open", "withdrawn"))
    worker.close()

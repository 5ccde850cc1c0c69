"""A worker accepts no order older than one that it has seen, also after it was killed in between."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from tenure.errors import StaleToken, UnverifiedToken
from tenure.model import Token
from tenure.sinks import FileMark, Mark, MemoryMark, Orders, SQLiteMark

FENCE = "zookeeper://h1/crawl"
MARKS: dict[str, Callable[[Path], Mark]] = {
    "sqlite": lambda folder: SQLiteMark(folder / "mark.db"),
    "file": FileMark,
}

# Takes orders from its standard input, which is the channel here, and says what became of each.
WORKER = """
import json, sys
from pathlib import Path
from types import SimpleNamespace
from tenure.errors import StaleToken
from tenure.sinks import FileMark, Orders, SQLiteMark

kind, folder = sys.argv[1:]
orders = Orders(FileMark(folder) if kind == "file" else SQLiteMark(Path(folder) / "mark.db"))
for line in sys.stdin:
    order = SimpleNamespace(**json.loads(line))
    try:
        orders.accept(order)
    except StaleToken as stale:
        print(f"refused {stale.highest}", flush=True)
    else:
        print("accepted", flush=True)
"""


@contextmanager
def worker(kind: str, folder: Path) -> Iterator[Callable[[int], str]]:
    """Start a worker; killed with -9 at the end, between two orders."""
    command = [sys.executable, "-c", WORKER, kind, str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin
    assert process.stdout

    def give(token: int) -> str:
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps({"fence": FENCE, "token": token}) + "\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    try:
        yield give
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdin.close()
        process.stdout.close()


@pytest.mark.parametrize("kind", MARKS)
def test_a_worker_that_was_killed_still_refuses_what_is_older(kind: str, tmp_path: Path) -> None:
    with worker(kind, tmp_path) as give:
        assert [give(token) for token in (3, 3, 7, 3, 7)] == ["accepted"] * 3 + ["refused 7", "accepted"]
    with worker(kind, tmp_path) as give:
        assert [give(token) for token in (3, 6, 7, 8)] == ["refused 7", "refused 7", "accepted", "accepted"]
    with worker(kind, tmp_path) as give, worker(kind, tmp_path) as other:  # Two workers that share a mark.
        assert [give(9), other(8), other(9), give(8)] == ["accepted", "refused 9", "accepted", "refused 9"]


def order(token: int) -> SimpleNamespace:
    return SimpleNamespace(fence=FENCE, token=token)


async def granted(_: str, token: Token) -> bool:
    return token <= 9


VERIFIERS: list[Any] = [granted, lambda _, token: token <= 9]


@pytest.mark.parametrize("verify", VERIFIERS, ids=["async", "plain"])
def test_a_forged_order_is_refused_and_counted_and_locks_nobody_out(verify: Any) -> None:
    orders = Orders(MemoryMark(), verify=verify)
    orders.accept(order(7))
    with pytest.raises(UnverifiedToken):
        orders.accept(order(2**62))
    with pytest.raises(UnverifiedToken):
        anyio.run(orders.accept_soon, order(2**62))
    with pytest.raises(StaleToken):
        orders.accept(order(6))
    assert (orders.refused.unverified, orders.refused.stale) == (2, 1)
    orders.accept(order(9))


def test_a_seal_refuses_older_orders_before_the_first_newer_one_comes(tmp_path: Path) -> None:
    orders = Orders(FileMark(tmp_path))
    orders.accept(order(7))
    anyio.run(orders.seal, FENCE, Token(8))
    with pytest.raises(StaleToken, match="highest seen is 8"):
        orders.accept(order(7))

"""``verify=``: a token higher than any seen is confirmed before the fence is raised, and a wrong one locks nobody out."""

import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from tenure.errors import StaleToken, Unreachable, UnverifiedToken
from tenure.model import TOKEN_MAX, Token
from tenure.sinks import SQLiteSink, Verify

FENCE = "store/books"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def term(token: int) -> SimpleNamespace:
    return SimpleNamespace(token=token, fence=FENCE)


def highest(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        row = connection.execute("SELECT highest FROM tenure_fence WHERE fence = ?", (FENCE,)).fetchone()
    return row[0] if row else 0


def up_to_ten(_: str, token: Token) -> bool:
    return token <= 10


async def up_to_ten_async(_: str, token: Token) -> bool:
    return token <= 10


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("verify", [up_to_ten, up_to_ten_async])
def test_a_seal_asks_a_function_of_either_kind(path: Path, verify: Verify, backend: str) -> None:
    with SQLiteSink(path, verify=verify) as sink:
        anyio.run(sink.seal, FENCE, Token(7), backend=backend)
        with pytest.raises(UnverifiedToken) as caught:
            anyio.run(sink.seal, FENCE, Token(TOKEN_MAX), backend=backend)
        assert (caught.value.token, caught.value.highest) == (TOKEN_MAX, 7)
    assert highest(path) == 7


def test_a_transaction_asks_a_plain_function(path: Path) -> None:
    with SQLiteSink(path, verify=up_to_ten) as sink:
        with sink.transaction(term(7)):
            pass
        with pytest.raises(UnverifiedToken), sink.transaction(term(TOKEN_MAX)):
            pass
        with sink.transaction(term(8)):
            pass
    assert highest(path) == 8


def test_a_transaction_cannot_ask_an_async_function_and_so_takes_only_what_was_sealed(path: Path) -> None:
    with SQLiteSink(path, verify=up_to_ten_async) as sink:
        with pytest.raises(UnverifiedToken), sink.transaction(term(7)):
            pass
        anyio.run(sink.seal, FENCE, Token(7))
        with sink.transaction(term(7)):
            pass
    assert highest(path) == 7


def test_no_lock_is_held_while_the_store_is_asked(path: Path) -> None:
    def verify(_: str, __: Token) -> bool:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")
        return True

    with SQLiteSink(path, verify=verify) as sink:
        with sink.transaction(term(7)):
            pass
        anyio.run(sink.seal, FENCE, Token(8))
    assert highest(path) == 8


def test_a_token_that_was_overtaken_while_it_was_verified_is_stale(path: Path) -> None:
    def verify(_: str, __: Token) -> bool:
        with SQLiteSink(path) as rival, rival.transaction(term(9)):
            return True

    with SQLiteSink(path, verify=verify) as sink:
        with pytest.raises(StaleToken) as caught, sink.transaction(term(7)):
            pass
        assert (caught.value.token, caught.value.highest) == (7, 9)


def test_a_store_that_cannot_be_asked_is_an_error_of_the_store_and_raises_no_fence(path: Path) -> None:
    def verify(_: str, __: Token) -> bool:
        raise Unreachable("etcd://h", "read")

    with SQLiteSink(path, verify=verify) as sink:
        with pytest.raises(Unreachable, match="etcd"):
            anyio.run(sink.seal, FENCE, Token(7))
        with pytest.raises(Unreachable, match="etcd"), sink.transaction(term(7)):
            pass
    assert highest(path) == 0

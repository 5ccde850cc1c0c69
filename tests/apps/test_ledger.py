"""A ledger keeps the same promises in every database: all of an entry or nothing, and nothing of a leader that was succeeded."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.apps.ledger.base import Entry, Ledger
from tenure.apps.ledger.opening import open_ledger
from tenure.errors import ConfigError, Refused, StaleToken, Unreachable
from tenure.model import Token
from tenure.sinks.sql.talk import Ask


def term(token: int, fence: str = "store/books") -> Any:
    return SimpleNamespace(fence=fence, token=token)


def made(ledger: Ledger, table: str) -> Entry[None]:
    words = ledger.words
    yield Ask(f"CREATE TABLE {table} (name {words.key} PRIMARY KEY, note {words.text}, cents {words.number} NOT NULL)")


def added(table: str, name: str, cents: int, note: str | None = None) -> Entry[int]:
    told = yield Ask(f"INSERT INTO {table} (name, note, cents) VALUES (?, ?, ?)", (name, note, cents))  # noqa: S608
    return told.count


def raised(table: str, name: str, was: int, now: int) -> Entry[int]:
    told = yield Ask(f"UPDATE {table} SET cents = ? WHERE name = ? AND cents = ?", (now, name, was))  # noqa: S608
    return told.count


def listed(table: str) -> Entry[list[Any]]:
    told = yield Ask(f"SELECT name, note, cents FROM {table} ORDER BY name")  # noqa: S608
    return told.rows


def run(url: str, test: Callable[[Ledger], Awaitable[None]]) -> None:
    @asynccontextmanager
    async def opened() -> Any:
        ledger = open_ledger(url)
        try:
            yield ledger
        finally:
            await ledger.close()

    async def bounded() -> None:
        async with asyncio.timeout(60), opened() as ledger:
            await test(ledger)

    asyncio.run(bounded())


def test_what_is_recorded_is_there_and_says_how_many_rows_it_changed(url: str) -> None:
    async def test(ledger: Ledger) -> None:
        await ledger.ask(made(ledger, "kept"))
        await ledger.seal("store/kept", Token(3))
        assert await ledger.record(term(3, "store/kept"), added("kept", "a", 5, "50 % off?")) == 1
        assert (
            await ledger.record(term(3, "store/kept"), raised("kept", "a", 5, 5)) == 1
        )  # found, though nothing is different
        assert await ledger.record(term(3, "store/kept"), raised("kept", "a", 5, 6)) == 1
        assert await ledger.record(term(3, "store/kept"), raised("kept", "a", 5, 7)) == 0
        assert await ledger.ask(listed("kept")) == [("a", "50 % off?", 6)]

    run(url, test)


def test_a_leader_that_was_succeeded_records_nothing(url: str) -> None:
    async def test(ledger: Ledger) -> None:
        await ledger.ask(made(ledger, "stale"))
        await ledger.record(term(3), added("stale", "a", 5))
        await ledger.seal("store/books", Token(4))
        with pytest.raises(StaleToken):
            await ledger.record(term(3), added("stale", "b", 5))
        assert [name for name, _, _ in await ledger.ask(listed("stale"))] == ["a"]

    run(url, test)


def test_an_entry_that_raises_leaves_nothing(url: str) -> None:
    def half(table: str) -> Entry[None]:
        yield from added(table, "half", 1)
        raise ValueError("no more")

    async def test(ledger: Ledger) -> None:
        await ledger.ask(made(ledger, "halves"))
        with pytest.raises(ValueError, match="no more"):
            await ledger.record(term(9), half("halves"))
        with pytest.raises(ValueError, match="no more"):
            await ledger.ask(half("halves"))
        assert await ledger.ask(listed("halves")) == []

    run(url, test)


def test_what_a_database_refuses_is_told_and_harms_nothing_after_it(url: str) -> None:
    async def test(ledger: Ledger) -> None:
        await ledger.ask(made(ledger, "twice"))
        await ledger.record(term(9), added("twice", "a", 5))
        with pytest.raises(Refused, match="record"):
            await ledger.record(term(9), added("twice", "a", 5))
        with pytest.raises(Refused):
            await ledger.ask(added("twice", "a", 5))
        assert await ledger.record(term(9), added("twice", "A", 5)) == 1  # Keys are compared to the letter.

    run(url, test)


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "books.db",
        "sqlite://books.db",
        "sqlite:///",
        "sqlite:///x.db?mode=ro",
        "sqlite:///x#y.db",
        "sqlite:///x%00y",
        "oracle://h/x",
        "mysql://h",
        "postgresql://[::1/x",
    ],
)
def test_a_url_that_names_no_database_is_one_error(bad: str) -> None:
    with pytest.raises(ConfigError):
        open_ledger(bad)


@pytest.mark.parametrize("url", ["postgresql://u:hidden@127.0.0.1:1/x", "mysql://u:hidden@127.0.0.1:1/x"])
def test_a_server_that_is_not_there_is_told_of_without_the_password(url: str) -> None:
    async def test(ledger: Ledger) -> None:
        with pytest.raises(Unreachable) as told:
            await ledger.ask(listed("x"))
        assert "hidden" not in str(told.value)

    run(url, test)

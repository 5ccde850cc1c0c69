"""A table of fences that somebody edited by hand: one clear line, and nothing is written."""

import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from tenure.errors import Refused
from tenure.model import Token
from tenure.sinks import SQLiteMark, SQLiteSink
from tenure.sinks.repair import fences_of

NONSENSE = ["'seven'", "7.5", "9223372036854775808", "x'00'"]
BY_OLDER_CODE = "CREATE TABLE tenure_fence (fence TEXT NOT NULL PRIMARY KEY, highest INTEGER NOT NULL) WITHOUT ROWID"
TERM = SimpleNamespace(fence="f", token=Token(3))


def edit(path: Path, highest: str) -> None:
    with closing(sqlite3.connect(path)) as somebody, somebody:
        somebody.execute(f"UPDATE tenure_fence SET highest = {highest}")  # noqa: S608


@pytest.mark.parametrize("nonsense", [*NONSENSE, "-7"])
def test_a_fence_cannot_be_edited_into_what_is_no_token(nonsense: str, tmp_path: Path) -> None:
    path = tmp_path / "books.db"
    with SQLiteSink(path) as sink, sink.transaction(TERM):
        pass
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        edit(path, nonsense)
    edit(path, "0")  # As one that is lowered may stand.
    with SQLiteSink(path) as sink, sink.transaction(TERM):
        pass


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_what_was_edited_in_a_table_of_older_code_is_refused_in_one_line(nonsense: str, tmp_path: Path) -> None:
    path = tmp_path / "books.db"
    with closing(sqlite3.connect(path)) as older:
        older.execute(BY_OLDER_CODE)
        older.execute("CREATE TABLE written (a)")
    with SQLiteSink(path) as sink, sink.transaction(TERM):
        pass
    edit(path, nonsense)
    for token in (2, 3, 4):
        term = SimpleNamespace(fence="f", token=token)
        with (
            SQLiteSink(path) as sink,
            pytest.raises(Refused, match=r"tenure_fence was edited: f stands at .* no token") as told,
            sink.transaction(term) as connection,
        ):
            connection.execute("INSERT INTO written VALUES (1)")
        assert "\n" not in str(told.value)
        with pytest.raises(Refused, match="edited"):
            SQLiteMark(path).admit("f", Token(token))
    with pytest.raises(Refused, match="edited"):
        fences_of(path)
    with closing(sqlite3.connect(path)) as somebody:
        assert somebody.execute("SELECT count(*) FROM written").fetchone() == (0,)

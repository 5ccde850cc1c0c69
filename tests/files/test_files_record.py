"""Records: those that grow too large, those that somebody edited, and marks that are read while a write may fail."""

import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from tenure.errors import ConfigError, Refused, StaleToken
from tenure.model import Token
from tenure.sinks import FileMark, FileSink
from tenure.sinks.repair import fences_of, lower_fence
from tests.files.files_rig import FENCE, content, stands_at, term

TEMP = f"{'0' * 16}-{7:020d}-{'0' * 16}"
REPAIR = {"fence": "f", "was": 7, "now": 3, "who": "ada", "when": "now", "why": "forged"}


def put(folder: Path, **page: Any) -> None:
    (folder / ".tenure").mkdir(exist_ok=True)
    text = json.dumps({"tenure": 1, "highest": {FENCE: 7}, **page})
    (folder / ".tenure" / "fences.json").write_text(text)


def test_a_record_that_nobody_would_read_again_is_not_written(tmp_path: Path) -> None:
    put(tmp_path, highest={f"{number:x<1000}": 1 for number in range(1030)})
    sink = FileSink(tmp_path)

    def fill() -> None:
        for number in range(20):
            anyio.run(sink.seal, f"{number:y<1000}", Token(1))

    with pytest.raises(ConfigError, match="has too many: use several folders"):
        fill()
    anyio.run(sink.seal, f"{0:x<1000}", Token(2))  # What is there still stands, and can be raised.
    with pytest.raises(ConfigError, match="at most 2048 characters"):
        anyio.run(sink.seal, "f" * 2049, Token(1))


def test_a_mark_is_not_raised_by_a_write_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is raised, the rename fails, and the record is taken back: a mark that looks in between must not trust it."""
    FileSink(tmp_path).blocking(term(3)).write_bytes("ledger", b"old")
    rename = os.rename
    admitted: list[int] = []
    looked = threading.Event()

    def look() -> None:
        mark.admit(FENCE, Token(9))
        admitted.append(stands_at(tmp_path))
        looked.set()

    def failing(source: str, target: str, **options: int) -> None:
        if target == "ledger":
            thread.start()
            looked.wait(0.3)  # It must not come to that: it waits for the lock.
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        rename(source, target, **options)

    mark = FileMark(tmp_path)
    thread = threading.Thread(target=look)
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", failing)
        with pytest.raises(Refused):
            FileSink(tmp_path).blocking(term(9)).write_bytes("ledger", b"new")
    thread.join()
    # Whatever came first, what the mark has admitted is where the fence stands.
    assert (admitted, stands_at(tmp_path), content(tmp_path)) == ([9], 9, b"old")
    with pytest.raises(StaleToken):
        mark.admit(FENCE, Token(3))


def test_a_mark_syncs_what_somebody_else_has_raised_before_it_trusts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    mark = FileMark(tmp_path)
    mark.admit(FENCE, Token(7))
    assert len(synced) == 1
    mark.admit(FENCE, Token(7))
    assert len(synced) == 1


@pytest.mark.parametrize("temp", ["../m.db", "fences.json", "a\0b", "\udc00\ud800", "", ".", "x"])
def test_only_a_file_of_our_own_is_taken_for_one_that_is_to_be_renamed(temp: str, tmp_path: Path) -> None:
    (tmp_path / "m.db").write_text("precious")
    put(tmp_path, pending={"path": "x", "temp": temp})
    with pytest.raises(Refused, match=r"fences\.json was edited"):
        anyio.run(FileSink(tmp_path).seal, FENCE, Token(8))
    assert (tmp_path / "m.db").read_text() == "precious"
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "sub/.tenure/fences.json"])
def test_a_pending_path_that_no_file_can_have_is_refused_in_words(path: str, tmp_path: Path) -> None:
    put(tmp_path, pending={"path": path, "temp": TEMP})
    with pytest.raises(Refused, match="is to be finished first") as refused:
        anyio.run(FileSink(tmp_path).seal, FENCE, Token(8))
    assert str(refused.value).isprintable()


def test_a_pending_write_that_cannot_be_finished_is_named(tmp_path: Path) -> None:
    put(tmp_path, pending={"path": "ledger", "temp": TEMP})
    (tmp_path / ".tenure" / TEMP).write_text("new")
    (tmp_path / "ledger").mkdir()
    with pytest.raises(Refused, match="a write to 'ledger' is to be finished first, and cannot be: Is a directory"):
        anyio.run(FileSink(tmp_path).seal, FENCE, Token(8))
    (tmp_path / "ledger").rmdir()
    anyio.run(FileSink(tmp_path).seal, FENCE, Token(8))
    assert content(tmp_path) == b"new"


@pytest.mark.parametrize("wrong", [{"fence": 1}, {"was": "7"}, {"now": None}, {"why": ["x"]}, {"was": True}])
def test_repairs_that_somebody_edited_are_refused_in_one_line(wrong: dict[str, Any], tmp_path: Path) -> None:
    put(tmp_path, repairs=[{**REPAIR, **wrong}])
    with pytest.raises(Refused, match="not of its kind"):
        fences_of(tmp_path)  # which is what tenure fence show prints


@pytest.mark.parametrize("name", ["fence", "why", "who"])
def test_a_repair_in_words_that_utf8_cannot_say_is_refused(name: str, tmp_path: Path) -> None:
    put(tmp_path)
    words = {"fence": FENCE, "why": "forged", "who": "ada", name: "x\udcff"}
    with pytest.raises(ConfigError, match="UTF-8"):
        lower_fence(tmp_path, words["fence"], was=7, to=3, why=words["why"], who=words["who"])
    assert stands_at(tmp_path) == 7


@pytest.mark.parametrize("path", ["sub/.tenure/fences.json", ".Tenure/x", "a/.TENURE", "\ud800"])
def test_no_path_leads_to_the_fences_of_any_folder(path: str, tmp_path: Path) -> None:
    anyio.run(FileSink(tmp_path).seal, FENCE, Token(1))
    (tmp_path / "sub").mkdir()
    anyio.run(FileSink(tmp_path / "sub").seal, FENCE, Token(5))
    with pytest.raises(ConfigError, match="path"):
        FileSink(tmp_path).blocking(term(1)).write_bytes(path, b"{}")
    assert stands_at(tmp_path / "sub") == 5

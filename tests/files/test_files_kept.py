"""What a sink keeps open between calls: it saves work, and makes it believe nothing that is not so any more."""

import fcntl
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest

from tenure.errors import Refused, StaleToken
from tenure.model import Token
from tenure.sinks import FileSink
from tenure.testing.engines.processes import wait_for
from tests.files.files_rig import FENCE, content, kept, stands_at, term

PATIENCE_S = 60


def descriptors(folder: Path) -> int:
    """How many of this process lead to the folder or into it."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        try:
            found += str(link.readlink()).startswith(str(folder))
        except FileNotFoundError:  # the one by which this is listed
            continue
    return found


def test_a_sink_that_has_just_written_hears_of_every_seal(tmp_path: Path) -> None:
    """One right after the other, in files of one size, whose numbers are given out again and again."""
    for token in range(1000, 1060, 2):
        old = FileSink(tmp_path).blocking(term(token))
        old.write_bytes("ledger", b"old")
        for later in (token + 1, token + 2):  # The second may have the number that the first record had.
            FileSink(tmp_path).folder.seal(FENCE, later, known_only=False)
        with pytest.raises(StaleToken) as refused:
            old.write_bytes("ledger", b"stale")
        assert refused.value.highest == token + 2
    assert content(tmp_path) == b"old"


def test_a_record_that_is_edited_in_its_place_is_read_again(tmp_path: Path) -> None:
    bound = FileSink(tmp_path).blocking(term(7))
    bound.write_bytes("ledger", b"old")
    record = tmp_path / ".tenure" / "fences.json"
    good = record.read_text()
    record.write_text(good.replace("7", "9"))
    with pytest.raises(StaleToken):
        bound.write_bytes("ledger", b"stale")
    record.write_text("rubbish")
    with pytest.raises(Refused, match="was edited"):
        bound.write_bytes("ledger", b"stale")
    record.write_text(good)
    bound.write_bytes("ledger", b"new")
    assert content(tmp_path) == b"new"


def test_a_folder_that_takes_the_place_of_another_is_the_one_that_is_written_to(tmp_path: Path) -> None:
    folder, moved = tmp_path / "folder", tmp_path / "moved"
    folder.mkdir()
    bound = FileSink(folder).blocking(term(1))
    bound.write_bytes("ledger", b"old")
    folder.rename(moved)
    with pytest.raises(Refused, match="No such file or directory"):
        bound.write_bytes("ledger", b"nowhere")
    folder.mkdir()
    anyio.run(FileSink(folder).seal, FENCE, Token(2))
    with pytest.raises(StaleToken):
        bound.write_bytes("ledger", b"stale")
    # Even if the fences themselves came along.
    shutil.rmtree(folder / ".tenure")
    (moved / ".tenure").rename(folder / ".tenure")
    bound.write_bytes("ledger", b"new")
    assert (content(moved), content(folder), stands_at(folder)) == (b"old", b"new", 1)


@pytest.mark.parametrize("how", ["link", "rename"])
def test_a_folder_that_is_replaced_while_a_writer_waits_for_its_lock_is_not_written_to(
    how: str, tmp_path: Path
) -> None:
    path, first, second = tmp_path / "current", tmp_path / "v1", tmp_path / "v2"
    first.mkdir()
    second.mkdir()
    if how == "link":
        path.symlink_to(first)
    else:
        first.rename(path)
    sink = FileSink(path, wait_s=PATIENCE_S)
    sink.blocking(term(1)).write_bytes("ledger", b"old")
    with ThreadPoolExecutor(1) as threads, (path / "ledger").open() as opened:
        folder = os.open(path / ".tenure", os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            writing = threads.submit(sink.blocking(term(1)).write_bytes, "ledger", b"lost")
            assert wait_for(lambda: len(kept(path)) > 1, PATIENCE_S)  # What it is to write is there; it waits.
            if how == "link":
                (tmp_path / "next").symlink_to(second)
                (tmp_path / "next").rename(path)
            else:
                path.rename(first)
                second.rename(path)
        finally:
            os.close(folder)
        with pytest.raises(Refused, match="the path was made to lead to another folder meanwhile"):
            writing.result(PATIENCE_S)
        assert opened.read() == "old"
    assert (content(first), kept(first)) == (b"old", ["fences.json"])
    sink.blocking(term(1)).write_bytes("ledger", b"new")
    assert content(path) == b"new"


def test_fences_that_were_removed_between_two_writes_have_seen_nothing(tmp_path: Path) -> None:
    bound = FileSink(tmp_path).blocking(term(5))
    bound.write_bytes("ledger", b"old")
    (tmp_path / ".tenure" / "fences.json").unlink()
    assert stands_at(tmp_path) == 0
    bound.write_bytes("ledger", b"new")
    (tmp_path / ".tenure" / "fences.json").unlink()
    (tmp_path / ".tenure").rmdir()
    bound.write_bytes("ledger", b"newer")
    assert (stands_at(tmp_path), content(tmp_path)) == (5, b"newer")


def test_nothing_stays_open_of_a_sink_that_was_closed_or_that_nobody_has_any_more(tmp_path: Path) -> None:
    sink = FileSink(tmp_path)
    for _ in range(2):  # The first one finds no record.
        sink.blocking(term(1)).write_bytes("ledger", b"old")
    assert descriptors(tmp_path) == 3
    for _ in range(20):
        sink.folder.seal(FENCE, sink.folder.highest(FENCE) + 1, known_only=False)
    assert descriptors(tmp_path) <= 3
    sink.close()
    assert descriptors(tmp_path) == 0
    sink.blocking(term(21)).write_bytes("ledger", b"new")
    assert descriptors(tmp_path) == 3
    del sink
    assert descriptors(tmp_path) == 0

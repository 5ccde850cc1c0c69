"""A writer that is killed at any call leaves the old file or the new one, and a fence that fits it."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from tenure.errors import Refused, StaleToken
from tenure.model import Token
from tenure.sinks import FileSink
from tests.files.files_rig import FENCE, NEW, OLD, content, kept, killed_at, stands_at, term

# The child of a fork makes its calls and dies; it never takes a lock that a thread of its parent could have held.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory, where there is one: a killed process loses nothing that the system has, so no disk is needed."""
    memory = Path("/dev/shm")  # noqa: S108
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    FileSink(tmp_path).blocking(term(3)).write_bytes("ledger", OLD)
    return tmp_path


def written_twice(sink: FileSink) -> None:
    """The second time the folder is open already, and the record known."""
    for new in (OLD, NEW):
        sink.blocking(term(3)).write_bytes("ledger", new)


WORKS: dict[str, tuple[int, Callable[[FileSink], None], bytes | None]] = {
    "write, sealed": (3, lambda sink: sink.blocking(term(3)).write_bytes("ledger", NEW), NEW),
    "second write, sealed": (3, written_twice, NEW),
    "write, raises the fence": (5, lambda sink: sink.blocking(term(5)).write_bytes("ledger", NEW), NEW),
    "delete, sealed": (3, lambda sink: sink.blocking(term(3)).delete("ledger"), None),
    "delete, raises the fence": (5, lambda sink: sink.blocking(term(5)).delete("ledger"), None),
    "update, raises the fence": (5, lambda sink: sink.blocking(term(5)).update("ledger", lambda _: NEW), NEW),
}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", WORKS)
def test_killed_at_every_call_it_leaves_both_or_neither(name: str, after: bool, folder: Path, tmp_path: Path) -> None:
    token, work, wanted = WORKS[name]
    outcomes, number = set(), 0
    while True:
        number += 1
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("copy-*"))
        was_killed = killed_at(number, after=after, work=partial(work, FileSink(copy)))
        assert content(copy) in (OLD, wanted), "half a file"
        # Whoever comes next, however old, finishes what counts already; and changes nothing else.
        with pytest.raises(StaleToken) as refused:
            FileSink(copy).blocking(term(2)).write_bytes("ledger", b"stale")
        highest, found = stands_at(copy), content(copy)
        assert refused.value.highest == highest
        assert (highest, found) in ((3, OLD), (token, wanted)), f"call {number}: the fence and the file do not fit"
        outcomes.add(found)
        FileSink(copy).blocking(term(token)).write_bytes("ledger", b"next")
        assert content(copy) == b"next"
        # What a killed writer has left is gone once the fence is raised.
        FileSink(copy).folder.seal(FENCE, 9, known_only=False)
        assert kept(copy) == ["fences.json"]
        shutil.rmtree(copy)
        if not was_killed:
            break
    assert outcomes == {OLD, wanted}
    assert number > 10  # A delete under a sealed token makes fourteen calls, and it is the shortest.


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_the_first_write_in_a_folder_killed_at_every_call_leaves_it_or_nothing(after: bool, tmp_path: Path) -> None:
    """Here the folder of the fence and its record are made, too."""
    seen, number, was_killed = set(), 0, True
    while was_killed:
        number += 1
        fresh = tmp_path / f"fresh-{number}"
        fresh.mkdir()
        work = partial(FileSink(fresh).blocking(term(3)).write_bytes, "ledger", NEW)
        was_killed = killed_at(number, after=after, work=work)
        assert content(fresh) in (None, NEW), "half a file"
        FileSink(fresh).folder.seal(FENCE, 4, known_only=False)  # It finishes what counts already.
        found = content(fresh)
        with pytest.raises(StaleToken, match="highest seen is 4"):
            FileSink(fresh).blocking(term(3)).write_bytes("ledger", b"stale")
        assert (content(fresh), kept(fresh)) == (found, ["fences.json"])
        seen.add(found)
        shutil.rmtree(fresh)
    assert seen == {None, NEW}
    assert number > 20  # It makes more than thirty calls.


def test_a_seal_killed_at_every_call_stands_before_or_after(folder: Path, tmp_path: Path) -> None:
    seen, number, was_killed = set(), 0, True
    while was_killed:
        number += 1
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("copy-*"))
        seal = partial(FileSink(copy).folder.seal, FENCE, 7, known_only=False)
        was_killed = killed_at(number, after=False, work=seal)
        seen.add(stands_at(copy))
        FileSink(copy).folder.seal(FENCE, 7, known_only=False)
        assert (stands_at(copy), content(copy)) == (7, OLD)
    assert seen == {3, 7}


STRACED = """
import sys
from tests.files.files_rig import NEW, term
from tenure.sinks import FileSink
FileSink(sys.argv[1]).blocking(term(5)).write_bytes("ledger", NEW)
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is missing: install it to kill at system calls")
@pytest.mark.parametrize("call", ["fsync", "rename,renameat,renameat2", "unlink,unlinkat", "flock", "pwrite64,write"])
def test_killed_by_the_kernel_at_every_system_call_that_changes_something(call: str, folder: Path) -> None:
    """The same without our own wrappers in between: strace kills as the N-th call is made."""
    number, was_killed = 0, True
    while was_killed:
        number += 1
        if content(folder) != OLD:
            (folder / "ledger").write_bytes(OLD)
        shutil.rmtree(folder / ".tenure")
        FileSink(folder).folder.seal(FENCE, 3, known_only=False)
        inject = [
            "strace", "-f", "-qq", "-o", str(folder / "trace"), "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}"
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
        command = [*inject, sys.executable, "-c", STRACED, str(folder)]
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        was_killed = done.returncode == -9
        assert was_killed or done.returncode == 0, done.stderr
        assert content(folder) in (OLD, NEW)
        with pytest.raises(StaleToken):
            FileSink(folder).blocking(term(2)).write_bytes("ledger", b"stale")
        assert (stands_at(folder), content(folder)) in ((3, OLD), (5, NEW))
    assert number > 1


def test_a_write_that_cannot_be_finished_says_so_and_lets_nobody_pass(folder: Path) -> None:
    (folder / "deep").mkdir()
    number = 0
    while True:  # Until one is killed after its record counts, and before its file is there.
        number += 1
        assert killed_at(
            number, after=False, work=lambda: FileSink(folder).blocking(term(5)).write_bytes("deep/x", NEW)
        ), "no call left the write pending"
        if '"pending"' in (folder / ".tenure" / "fences.json").read_text():
            break
        FileSink(folder).folder.seal(FENCE, 3, known_only=False)
    (folder / "deep").rmdir()
    for token in (2, 5, 7):
        with pytest.raises(
            Refused, match="a write to 'deep/x' is to be finished first, and cannot be: deep must be a folder"
        ):
            anyio.run(FileSink(folder).seal, FENCE, Token(token))
    (folder / "deep").mkdir()
    anyio.run(FileSink(folder).seal, FENCE, Token(7))
    assert (folder / "deep" / "x").read_bytes() == NEW

"""What a write or a seal has put in its place is on the disk before anything builds on it: the order of syncs and renames."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tenure.sinks import FileSink
from tests.files.files_rig import FENCE, NEW, OLD, content, killed_at, stands_at, term

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # As in test_files_killed.


class Step(NamedTuple):
    """One call: "write" or "sync" of a file or folder, "rename" of a file into a folder, "unlink" in one."""

    call: str
    file: int | None  # By the number of its inode, which stays through a rename.
    folder: int | None = None


def number(path: Path) -> int:
    return path.stat().st_ino


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Step]]:
    """What was done so far, in order. What failed was not done."""
    told: list[Step] = []

    def told_of(name: str, step: Callable[..., Step]) -> None:
        call = getattr(os, name)

        def calling(*args: Any, **options: Any) -> Any:
            done = step(*args, **options)  # Before: a rename takes its source away.
            answer = call(*args, **options)
            told.append(done)
            return answer

        monkeypatch.setattr(os, name, calling)

    told_of("write", lambda file, _: Step("write", os.fstat(file).st_ino))
    told_of("fsync", lambda file: Step("sync", os.fstat(file).st_ino))
    told_of(
        "rename",
        lambda source, _, *, src_dir_fd, dst_dir_fd: Step(
            "rename", os.stat(source, dir_fd=src_dir_fd).st_ino, os.fstat(dst_dir_fd).st_ino
        ),
    )
    told_of("unlink", lambda _, *, dir_fd: Step("unlink", None, os.fstat(dir_fd).st_ino))
    yield told
    monkeypatch.undo()


def check_order(steps: list[Step], own: int) -> None:
    """Every file is synced before it is renamed, and its folder afterwards, before the next step or the end."""
    # What is removed beside the fences is rubbish, and may come back.
    changes = [at for at, step in enumerate(steps) if step.folder is not None and step[::2] != ("unlink", own)]
    for at, following in zip(changes, [*changes[1:], len(steps)], strict=True):
        step = steps[at]
        touched = [before.call for before in steps[:at] if before.file == step.file and before.folder is None]
        assert step.call == "unlink" or touched[-1:] in ([], ["sync"]), f"step {at} of {steps}: not synced before"
        assert Step("sync", step.folder) in steps[at + 1 : following], f"step {at} of {steps}: its folder is not synced"


def first_rename(steps: list[Step]) -> int:
    return next(at for at, step in enumerate(steps) if step.call == "rename")


WORKS: dict[str, tuple[int, Callable[[FileSink], None]]] = {
    "write, sealed": (1, lambda sink: sink.blocking(term(3)).write_bytes("ledger", NEW)),
    "write below, sealed": (1, lambda sink: sink.blocking(term(3)).write_bytes("deep/ledger", NEW)),
    "update, sealed": (1, lambda sink: sink.blocking(term(3)).update("ledger", lambda _: NEW)),
    "delete, sealed": (0, lambda sink: sink.blocking(term(3)).delete("ledger")),
    "write, raises the fence": (3, lambda sink: sink.blocking(term(5)).write_bytes("ledger", NEW)),
    "write below, raises the fence": (3, lambda sink: sink.blocking(term(5)).write_bytes("deep/ledger", NEW)),
    "update, raises the fence": (3, lambda sink: sink.blocking(term(5)).update("ledger", lambda _: NEW)),
    "delete, raises the fence": (2, lambda sink: sink.blocking(term(5)).delete("ledger")),
    "seal": (1, lambda sink: sink.folder.seal(FENCE, 7, known_only=False)),
}


@pytest.mark.parametrize("name", WORKS)
def test_files_are_synced_before_they_are_renamed_and_folders_afterwards(
    name: str, tmp_path: Path, steps: list[Step]
) -> None:
    (tmp_path / "deep").mkdir()
    FileSink(tmp_path).blocking(term(3)).write_bytes("ledger", OLD)
    sink, own = FileSink(tmp_path), number(tmp_path / ".tenure")
    steps.clear()
    rename_count, work = WORKS[name]
    work(sink)
    check_order(steps, own)
    assert [step.call for step in steps].count("rename") == rename_count
    assert any(step[::2] == ("unlink", number(tmp_path)) for step in steps) == ("delete" in name)
    if "raises" in name and "delete" not in name:  # The record names the new file, so that name must not be forgotten.
        assert Step("sync", own) in steps[: first_rename(steps)]


def test_the_folder_of_the_fences_is_kept_before_there_is_a_fence(tmp_path: Path, steps: list[Step]) -> None:
    FileSink(tmp_path).folder.seal(FENCE, 3, known_only=False)
    check_order(steps, number(tmp_path / ".tenure"))
    assert Step("sync", number(tmp_path)) in steps[: first_rename(steps)]


def left_pending(found: bytes, within: Path) -> Path:
    """Return a folder whose record says that a file is to be renamed, by a writer that was killed when ``found`` was there."""
    for call_count in count(1):
        folder = within / str(call_count)
        folder.mkdir()
        FileSink(folder).blocking(term(3)).write_bytes("ledger", OLD)
        write = partial(FileSink(folder).blocking(term(5)).write_bytes, "ledger", NEW)
        assert killed_at(call_count, after=False, work=write), "no call left it to be done"
        if b'"pending"' in (folder / ".tenure" / "fences.json").read_bytes() and content(folder) == found:
            return folder
    raise AssertionError


@pytest.mark.parametrize("found", [OLD, NEW], ids=["before its file was there", "when its file was there"])
def test_what_a_killed_writer_left_to_be_done_is_kept_before_its_record_is_removed(
    found: bytes, tmp_path: Path, steps: list[Step]
) -> None:
    folder = left_pending(found, tmp_path)
    steps.clear()
    FileSink(folder).folder.seal(FENCE, 5, known_only=False)
    assert (stands_at(folder), content(folder)) == (5, NEW)
    check_order(steps, number(folder / ".tenure"))
    *_, put_record = (at for at, step in enumerate(steps) if step.call == "rename")
    assert Step("sync", number(folder)) in steps[:put_record]


def test_a_seal_of_a_fence_that_stands_there_already_keeps_it(tmp_path: Path, steps: list[Step]) -> None:
    FileSink(tmp_path).folder.seal(FENCE, 3, known_only=False)
    steps.clear()
    # Whoever raised it may have been killed before it came to that.
    FileSink(tmp_path).folder.seal(FENCE, 3, known_only=False)
    assert steps == [Step("sync", number(tmp_path / ".tenure"))]

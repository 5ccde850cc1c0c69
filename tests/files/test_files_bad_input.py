"""What a file sink is given that cannot work: one clear error, and nothing written."""

import errno
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from tenure.errors import ConfigError, OutcomeUnknown, Refused, StaleToken, StoreError, Unreachable, UnverifiedToken
from tenure.model import TOKEN_MAX, Token
from tenure.sinks import FileMark, FileSink
from tests.files.files_rig import FENCE, NEW, content, kept, stands_at, term

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a disk of a set size needs root, to be mounted")


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "path", ["", ".", "..", "../x", "a/../../x", "/etc/x", "a/", "a\0b", ".tenure/fences.json", "./.tenure/x"]
)
def test_a_path_that_leads_out_of_the_folder_is_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="path"):
        FileSink(tmp_path).blocking(term(1)).write_text(path, "x")
    assert everything(tmp_path) == {}


def test_links_are_refused_wherever_they_stand_in_a_path(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    folder.mkdir()
    (outside / "x").write_text("mine")
    (folder / "way").symlink_to(outside)
    (folder / "file").symlink_to(outside / "x")
    (folder / "sub").mkdir()
    bound = FileSink(folder).blocking(term(1))
    for path in ("way/x", "file", "sub", "missing/x"):
        with pytest.raises(ConfigError, match="must be a f"):
            bound.write_text(path, "not mine")
        with pytest.raises(ConfigError):
            bound.delete(path)
    assert everything(outside) == {"x": b"mine"}
    assert (folder / "file").is_symlink()
    bound.write_text("sub/x", "fine")
    assert (folder / "sub" / "x").read_text() == "fine"


@pytest.mark.parametrize("token", [0, -1, TOKEN_MAX + 1, "7", 7.0, 7.5, True, None])
def test_what_cannot_be_a_token_is_refused(token: object, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="token"):
        FileSink(tmp_path).blocking(SimpleNamespace(fence=FENCE, token=token)).write_text("x", "x")
    assert everything(tmp_path) == {}


RUBBISH = {
    "empty": b"",
    "not json": b"seven",
    "not utf-8": b"\xff\xfe",
    "a list": b"[]",
    "another format": b'{"tenure": 2, "highest": {}}',
    "negative": b'{"tenure": 1, "highest": {"%s": -5}}' % FENCE.encode(),
    "huge": b'{"tenure": 1, "highest": {"%s": %d}}' % (FENCE.encode(), 2**63),
    "a text": b'{"tenure": 1, "highest": {"%s": "7"}}' % FENCE.encode(),
    "a fraction": b'{"tenure": 1, "highest": {"%s": 7.0}}' % FENCE.encode(),
    "true": b'{"tenure": 1, "highest": {"%s": true}}' % FENCE.encode(),
    "twice": b'{"tenure": 1, "highest": {"%s": 9, "%s": 1}}' % (FENCE.encode(), FENCE.encode()),
    "pending nothing": b'{"tenure": 1, "highest": {}, "pending": {}}',
    "pending outside": b'{"tenure": 1, "highest": {}, "pending": {"path": "../x", "temp": null}}',
    "repairs": b'{"tenure": 1, "highest": {}, "repairs": [{}]}',
    "deep": b"[" * 100_000,
    "big": b" " * 2**21,
}


@pytest.mark.parametrize("name", RUBBISH)
def test_a_fence_that_somebody_edited_is_refused_in_one_line_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    (tmp_path / ".tenure").mkdir()
    (tmp_path / ".tenure" / "fences.json").write_bytes(RUBBISH[name])
    calls: list[Callable[[], None]] = [
        lambda: FileSink(tmp_path).blocking(term(7)).write_text("x", "x"),
        lambda: anyio.run(FileSink(tmp_path).seal, FENCE, Token(7)),
    ]
    for call in calls:
        with pytest.raises(Refused) as refused:
            call()
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) < 400
    assert everything(tmp_path) == {".tenure/fences.json": RUBBISH[name]}


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="seal was refused: No such file or directory"):
        anyio.run(FileSink(tmp_path / "missing").seal, FENCE, Token(1))
    assert not (tmp_path / "missing").exists()


UNPRIVILEGED = """
import os, sys
from types import SimpleNamespace
from tenure.errors import Refused
from tenure.sinks import FileSink
if os.geteuid() == 0:
    os.setuid(65534)
try:
    FileSink(sys.argv[1]).blocking(SimpleNamespace(fence="f", token=1)).write_text("x", "x")
except Refused as error:
    print(error)
"""


def test_a_folder_that_may_not_be_written_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir(mode=0o555)
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o011)
    done = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED, str(folder)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == (f"file sink {folder}: write was refused: Permission denied\n", 0), done
    assert everything(folder) == {}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["/bin/mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"a disk of a set size cannot be mounted here: {mounted.stderr}")
    yield disk
    subprocess.run(["/bin/umount", str(disk)], check=True)


@needs_root
def test_a_full_disk_leaves_the_old_file_and_the_fence(small_disk: Path) -> None:
    sink = FileSink(small_disk)
    sink.blocking(term(3)).write_bytes("ledger", b"old")
    for token in (3, 5):
        with pytest.raises(Refused, match="No space left on device"):
            sink.blocking(term(token)).write_bytes("ledger", b"x" * 2**20)
    assert (stands_at(small_disk), content(small_disk)) == (3, b"old")
    # Not even the fence can be raised once the last block is taken.
    blocks = shutil.disk_usage(small_disk).free
    (small_disk / "rest").write_bytes(b"x" * blocks)
    with pytest.raises(Refused, match="No space left on device"):
        anyio.run(sink.seal, FENCE, Token(7))
    assert stands_at(small_disk) == 3
    (small_disk / "rest").unlink()
    sink.blocking(term(5)).write_bytes("ledger", b"new")
    assert (stands_at(small_disk), content(small_disk)) == (5, b"new")
    assert kept(small_disk) == ["fences.json"]
    sink.close()  # Otherwise the disk cannot be unmounted, which the fixture does.


def failing_at(number: int) -> Callable[[int], None]:
    """Return an fsync that fails when it is called for the N-th time."""
    count, fsync = itertools.count(1), os.fsync

    def failing(file: int) -> None:
        if next(count) == number:
            raise OSError(errno.EIO, "Input/output error")
        fsync(file)

    return failing


@pytest.mark.parametrize("token", [3, 5])
def test_a_disk_that_fails_before_and_after_the_rename_is_told_apart(
    token: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = set()
    for number in range(1, 20):
        folder = tmp_path / str(number)
        folder.mkdir()
        FileSink(folder).blocking(term(3)).write_bytes("ledger", b"old")
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", failing_at(number))
            try:
                FileSink(folder).blocking(term(token)).write_bytes("ledger", NEW)
            except StoreError as error:
                kinds.add(type(error))
                told: type[StoreError] | None = type(error)
            else:
                told = None
        with pytest.raises(StaleToken):
            FileSink(folder).blocking(term(2)).write_bytes("ledger", b"stale")
        state = stands_at(folder), content(folder)
        assert state in ((3, b"old"), (token, NEW))
        if told is Refused:
            assert state == (3, b"old"), "it was told that nothing had changed"
        if told is None:
            assert state == (token, NEW)
            break
    assert kinds == {Refused, OutcomeUnknown}


@pytest.mark.parametrize("token", [3, 5])
def test_a_rename_that_fails_takes_the_fence_back_with_it(
    token: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = FileSink(tmp_path)
    sink.blocking(term(3)).write_bytes("ledger", b"old")
    rename = os.rename

    def failing(source: str, target: str, **folders: int) -> None:
        if target == "ledger":
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(source, target, **folders)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", failing)
        with pytest.raises(Refused, match="lies on another file system"):
            sink.blocking(term(token)).write_bytes("ledger", NEW)
    assert (stands_at(tmp_path), content(tmp_path)) == (3, b"old")
    assert kept(tmp_path) == ["fences.json"]
    sink.blocking(term(4)).write_bytes("ledger", b"by another")
    assert (stands_at(tmp_path), content(tmp_path)) == (4, b"by another")


def test_a_lock_that_somebody_keeps_is_told_after_a_while(tmp_path: Path) -> None:
    sink = FileSink(tmp_path, wait_s=0.05)
    sink.blocking(term(1)).write_text("x", "x")

    def held(_: bytes | None) -> bytes:
        other = FileSink(tmp_path, wait_s=0.05)  # as another process would have it
        with pytest.raises(Unreachable, match=r"somebody has kept \.tenure locked for 0.05 s"):
            anyio.run(other.seal, FENCE, Token(2))
        with pytest.raises(Unreachable):
            anyio.run(sink.seal, FENCE, Token(2))
        return b"done"

    sink.blocking(term(1)).update("x", held)
    assert (tmp_path / "x").read_bytes() == b"done"
    assert stands_at(tmp_path) == 1


def test_a_forged_token_is_refused_and_counted_and_locks_nobody_out(tmp_path: Path) -> None:
    def verify(_: str, token: Token) -> bool:
        return token <= 5

    sink = FileSink(tmp_path, verify=verify)
    anyio.run(sink.seal, FENCE, Token(5))
    calls: list[Callable[[], None]] = [
        lambda: anyio.run(sink.seal, FENCE, Token(2**62)),
        lambda: anyio.run(sink.bind(term(2**62)).write_text, "x", "forged"),
        lambda: sink.blocking(term(2**62)).write_text("x", "forged"),
    ]
    for call in calls:
        with pytest.raises(UnverifiedToken):
            call()
    with pytest.raises(StaleToken):
        sink.blocking(term(4)).write_text("x", "stale")
    assert (sink.refused.unverified, sink.refused.stale) == (3, 1)
    anyio.run(sink.bind(term(5)).write_text, "x", "fine")
    assert (tmp_path / "x").read_text() == "fine"


def test_the_mode_of_a_file_that_is_replaced_stays(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("old")
    (tmp_path / "x").chmod(0o640)
    FileSink(tmp_path).blocking(term(1)).write_text("x", "new")
    assert ((tmp_path / "x").stat().st_mode & 0o777, (tmp_path / "x").read_text()) == (0o640, "new")


def test_a_cancelled_write_has_taken_place_or_not_once_the_caller_goes_on(tmp_path: Path) -> None:
    sink = FileSink(tmp_path)

    async def run() -> bytes | None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sink.bind(term(1)).write_bytes, "ledger", NEW)
                await anyio.lowlevel.checkpoint()
                scope.cancel()
        return content(tmp_path)

    found = anyio.run(run)
    anyio.run(sink.seal, FENCE, Token(2))
    assert content(tmp_path) == found


def test_a_mark_in_a_folder_shares_its_fences_with_the_sink(tmp_path: Path) -> None:
    FileMark(tmp_path).admit(FENCE, Token(4))
    FileMark(tmp_path).admit(FENCE, Token(4))
    with pytest.raises(StaleToken, match="highest seen is 4"):
        FileSink(tmp_path).blocking(term(3)).write_text("x", "x")
    with pytest.raises(UnverifiedToken):
        FileMark(tmp_path).admit(FENCE, Token(5), known_only=True)
    assert stands_at(tmp_path) == 4

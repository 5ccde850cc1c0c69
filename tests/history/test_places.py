"""Files of this machine, for stores that keep no documents: whole, bounded, and shared by processes that write at once."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.apps.history.places import OnDisk
from tenure.apps.history.records import TENURES_MAX
from tenure.errors import ConfigError, Unreachable
from tests.history.making import T0_S, record

WRITER = """
import sys
from pathlib import Path
from tenure.apps.history.places import OnDisk
from tenure.apps.history.records import Record
folder, first = Path(sys.argv[1]), int(sys.argv[2])
for token in range(first, first + 25):
    OnDisk("redlock-1", folder).add("jobs", [Record(token, "ada/1/0", 1.0)])
"""


def test_what_was_written_is_read_by_anybody_who_means_the_same_store_and_election(tmp_path: Path) -> None:
    OnDisk("redlock-1", tmp_path).add("jobs", [record(7)])
    OnDisk("redlock-1", tmp_path).add("jobs", [record(7, ended_s=T0_S + 1, reason="resigned"), record(8)])
    assert [one.reason for one in OnDisk("redlock-1", tmp_path).read("jobs")] == ["resigned", None]
    assert OnDisk("redlock-1", tmp_path).read("Jobs") == ()
    assert OnDisk("redlock-2", tmp_path).read("jobs") == ()
    assert OnDisk("redlock-1", tmp_path / "none").read("jobs") == ()


def test_two_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    both = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), first]) for first in ("1", "26")]
    assert [process.wait(60) for process in both] == [0, 0]
    assert [one.token for one in OnDisk("redlock-1", tmp_path).read("jobs")] == list(range(1, 51))


def test_after_a_thousand_tenures_there_is_one_small_file_for_the_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "history"
    on_disk = OnDisk("redlock-1", folder)
    for first in range(1, 1001, 10):
        on_disk.add("jobs", [record(token) for token in range(first, first + 10)])
    assert [one.token for one in on_disk.read("jobs")] == list(range(1001 - TENURES_MAX, 1001))
    (file,) = folder.glob("*.json")
    assert file.stat().st_size < 16 * 1024
    assert folder.stat().st_mode & 0o077 == 0


def test_of_too_many_elections_the_one_that_was_written_longest_ago_goes(tmp_path: Path) -> None:
    on_disk = OnDisk("redlock-1", tmp_path, files_max=3)
    for number in range(4):
        on_disk.add(f"e{number}", [record(7)])
        for age, file in enumerate(sorted(tmp_path.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)):
            os.utime(file, (1000 + age, 1000 + age))
    assert [len(on_disk.read(f"e{number}")) for number in range(4)] == [0, 1, 1, 1]


def test_a_lock_that_a_stopped_process_holds_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Unreachable, match="file://"):
            OnDisk("redlock-1", tmp_path, lock_within_s=0.05).add("jobs", [record(7)])


def test_a_file_that_was_torn_by_hand_is_refused_and_left(tmp_path: Path) -> None:
    on_disk = OnDisk("redlock-1", tmp_path)
    on_disk.add("jobs", [record(7)])
    (file,) = tmp_path.glob("*.json")
    file.write_bytes(b'{"format":1,"tenu')
    for work in (lambda: on_disk.read("jobs"), lambda: on_disk.add("jobs", [record(8)])):
        with pytest.raises(ConfigError, match="in a form that this version does not know"):
            work()
    assert file.read_bytes() == b'{"format":1,"tenu'


FULL = """
import resource, sys
from pathlib import Path
from tenure.apps.history.places import OnDisk
from tenure.apps.history.records import Record
from tenure.errors import Unreachable
on_disk = OnDisk("redlock-1", Path(sys.argv[1]))
on_disk.add("jobs", [Record(7, "ada/1/0", 1.0)])
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # as a disk that is full: a part of it is written
try:
    on_disk.add("jobs", [Record(number, "ada/1/0", 1.0) for number in range(8, 40)])
except Unreachable as error:
    assert "\\n" not in str(error), error
    assert [one.token for one in on_disk.read("jobs")] == [7]
    raise SystemExit(3)
"""


def test_on_a_disk_that_is_full_what_was_there_stays_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], check=False, timeout=60)
    assert run.returncode == 3
    assert sorted(path.suffix for path in tmp_path.iterdir()) == ["", ".json"]


def test_what_somebody_who_was_killed_has_left_is_written_over(tmp_path: Path) -> None:
    on_disk = OnDisk("redlock-1", tmp_path)
    on_disk.add("jobs", [record(7)])
    (file,) = tmp_path.glob("*.json")
    file.with_suffix(".new").write_bytes(b'{"format":1,"ten')
    on_disk.add("jobs", [record(8)])
    assert [one.token for one in on_disk.read("jobs")] == [7, 8]
    assert sorted(path.suffix for path in tmp_path.iterdir()) == ["", ".json"]


def test_a_folder_that_cannot_be_is_said_to_be_unreachable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unreachable):
        OnDisk("redlock-1", tmp_path / "file" / "folder").add("jobs", [record(7)])

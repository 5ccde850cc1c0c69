"""Requests in transactions: what is durable, what is definite, what is left behind, and what a failing disk does."""

import os
import resource
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tenure.clock import VirtualClock
from tenure.errors import ClockError, OutcomeUnknown, Refused, Unreachable
from tenure.model import Bid, Grant, Holder, Wait
from tenure.stores.base import ElectionStatus
from tenure.stores.sqlite.desk import Desk
from tenure.stores.sqlite.engine import Engine
from tenure.stores.sqlite.faults import fault_of
from tenure.stores.sqlite.file import LOG_KEPT, LOG_MAX, connect, log_of
from tenure.stores.sqlite.host import Host
from tenure.stores.sqlite.session import CLAIM, ELECTIONS, READ, RELEASE, RENEW, Request, Session

TTL_NS = 10**9
ADA, BOB = Holder("host", 1, "ada"), Holder("host", 1, "bob")


def claim(holder: Holder, serial: int = 1, election: str = "e") -> Request:
    return Request(CLAIM, Bid(election, holder, serial, TTL_NS))


def renew(grant: object) -> Request:
    assert isinstance(grant, Grant)
    return Request(RENEW, [grant])


def release(holder: Holder, serial: int = 1) -> Request:
    return Request(RELEASE, Bid("e", holder, serial, TTL_NS))


READ_E = Request(READ, "e")


@contextmanager
def opened(path: Path) -> Iterator[Session]:
    desk = Desk(path, f"sqlite://{path}", lambda: Host("boot", "time"))
    desk.open_first()
    try:
        yield Session(desk, VirtualClock(1))
    finally:
        desk.close()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with opened(tmp_path / "x.db") as session:
        yield session


def one(session: Session, request: Request) -> object:
    (answer,) = session.carry_out([request])
    return answer


def synchronous(session: Session) -> int:
    with session.desk.at_work("test") as (connection, _):
        return int(connection.execute("PRAGMA synchronous").fetchone()[0])


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process in the middle of a transaction."""
    with closing(connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def test_a_claim_is_synced_and_nothing_else_is(session: Session) -> None:
    for _ in range(2):  # Twice, because SQLite keeps prepared statements, and some pragmas act when they are prepared.
        grant = one(session, claim(ADA))
        assert synchronous(session) == 2
        one(session, renew(grant))
        assert synchronous(session) == 1
        one(session, claim(ADA))
        assert synchronous(session) == 2
        one(session, release(ADA))
        assert synchronous(session) == 1


def test_a_batch_with_a_claim_is_synced(session: Session) -> None:
    session.carry_out([release(BOB), claim(ADA), READ_E])
    assert synchronous(session) == 2


def test_a_batch_is_one_transaction_in_which_each_sees_those_before_it(session: Session) -> None:
    first, wait, nothing, second, incumbent = session.carry_out(
        [claim(ADA), claim(BOB), release(ADA), claim(BOB), READ_E]
    )
    assert isinstance(first, Grant)
    assert isinstance(wait, Wait)
    assert nothing is None
    assert isinstance(second, Grant)
    assert second.token == first.token + 1
    assert getattr(incumbent, "token", None) == second.token
    assert session._transaction_count == 1


def test_a_request_that_is_denied_spoils_no_other_of_its_batch(session: Session) -> None:
    with closing(connect(session.desk.path)) as connection:
        Engine(connection, Host("boot", "other time")).claim(Bid("theirs", BOB, 1, TTL_NS), 0)
    before, denied, after = session.carry_out([claim(ADA, election="a"), claim(ADA, election="theirs"), claim(ADA)])
    assert isinstance(before, Grant)
    assert isinstance(denied, Refused)
    assert isinstance(after, Grant)


def test_a_file_that_others_keep_locked_is_unreachable_after_a_bounded_wait_and_unchanged(session: Session) -> None:
    with locked(session.desk.path):
        answers = session.carry_out([claim(ADA), release(BOB)])
    assert [type(answer) for answer in answers] == [Unreachable, Unreachable]
    assert one(session, READ_E) is None


def test_a_read_does_not_wait_for_a_writer(session: Session) -> None:
    with locked(session.desk.path):
        assert one(session, READ_E) is None


def test_a_clock_that_goes_back_leaves_no_transaction_open(tmp_path: Path) -> None:
    class BrokenClock(VirtualClock):
        def now(self) -> int:
            raise ClockError(1, 2)

    with opened(tmp_path / "x.db") as session:
        answer = one(Session(session.desk, BrokenClock()), claim(ADA))
        assert isinstance(answer, ClockError)
        assert isinstance(one(session, claim(ADA)), Grant)


@pytest.mark.parametrize("replace", [False, True], ids=["removed", "replaced"])
def test_a_file_that_was_removed_is_not_written_to_any_more(replace: bool, session: Session) -> None:
    grant = one(session, claim(ADA))
    session.desk.path.unlink()
    if replace:
        with opened(session.desk.path) as other:
            assert isinstance(one(other, claim(BOB)), Grant)
    answer = one(session, renew(grant))
    assert isinstance(answer, Refused)
    assert "removed, replaced or hidden" in str(answer)


def test_a_file_whose_log_was_removed_is_not_written_to_any_more(session: Session) -> None:
    grant = one(session, claim(ADA))
    log_of(session.desk.path).unlink()
    # The newest token was in the log, and who opens the file now gets it again. They must not both go on.
    answer = one(session, renew(grant))
    assert isinstance(answer, Refused)
    assert "removed, replaced or hidden" in str(answer)


def test_a_file_that_was_overwritten_by_another_store_is_not_written_to(session: Session, tmp_path: Path) -> None:
    one(session, claim(ADA))
    session.desk.close()
    with opened(tmp_path / "other.db"):
        pass
    session.desk.path.write_bytes((tmp_path / "other.db").read_bytes())
    answer = one(session, claim(ADA, 2))
    assert isinstance(answer, Refused)
    assert "another store" in str(answer)


def test_a_connection_that_was_lost_is_replaced(session: Session) -> None:
    grant = one(session, claim(ADA))
    session.desk.close()
    assert one(session, renew(grant)) == ([grant], [])


@contextmanager
def disk_of(size: int, folder: Path) -> Iterator[Path]:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("making a small disk needs the right to mount one; the file size limit below stands in for it")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)  # noqa: S607


def test_a_full_disk_refuses_loses_nothing_and_goes_on_when_there_is_room_again(tmp_path: Path) -> None:
    with disk_of(256 * 1024, tmp_path / "disk") as disk, opened(disk / "x.db") as session:
        kept = one(session, claim(ADA))
        ballast = disk / "ballast"
        with ballast.open("wb", buffering=0) as filler, suppress(OSError):
            while filler.write(b"x" * 4096):
                pass
        answers = [one(session, claim(BOB, election=f"e{number}")) for number in range(10)]
        failed = [answer for answer in answers if not isinstance(answer, Grant)]
        assert failed
        assert all(isinstance(answer, Refused) and "the disk is full" in str(answer) for answer in failed)
        ballast.unlink()
        assert one(session, renew(kept)) == ([kept], [])
        later = one(session, claim(BOB, election="later"))
        assert isinstance(later, Grant)
        assert later.token > max(answer.token for answer in (kept, *answers) if isinstance(answer, Grant))


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_commit_that_the_disk_failed_has_no_known_outcome_and_can_be_repeated(session: Session) -> None:
    one(session, claim(ADA))
    with largest_file(log_of(session.desk.path).stat().st_size):
        failed = one(session, claim(BOB, election="other"))
    assert isinstance(failed, OutcomeUnknown)
    assert "the disk failed (SQLITE_IOERR_WRITE" in str(failed)
    again = one(session, claim(BOB, election="other"))
    assert isinstance(again, Grant)
    assert again.token == 2


def error_of(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("words")
    error.sqlite_errorcode, error.sqlite_errorname = code, "NAME"
    return error


@pytest.mark.parametrize(
    ("code", "before_commit", "at_commit"),
    [
        (sqlite3.SQLITE_BUSY, Unreachable, Unreachable),
        (sqlite3.SQLITE_BUSY_RECOVERY, Unreachable, Unreachable),
        (sqlite3.SQLITE_PROTOCOL, Unreachable, Unreachable),
        (sqlite3.SQLITE_FULL, Refused, Refused),
        (sqlite3.SQLITE_IOERR_FSYNC, Refused, OutcomeUnknown),
        (sqlite3.SQLITE_CORRUPT, Refused, OutcomeUnknown),
        (sqlite3.SQLITE_READONLY, Refused, OutcomeUnknown),
        (sqlite3.SQLITE_ERROR, Refused, OutcomeUnknown),
    ],
)
def test_a_failure_is_definite_unless_a_commit_record_may_have_been_written(
    code: int, before_commit: type, at_commit: type
) -> None:
    assert type(fault_of(error_of(code), "s", "o")) is before_commit
    assert type(fault_of(error_of(code), "s", "o", committing=True)) is at_commit


def test_damage_that_shows_later_is_told_in_one_line(session: Session) -> None:
    one(session, claim(ADA))
    session.desk.close()
    damaged = bytearray(session.desk.path.read_bytes())
    damaged[4096:] = b"\xa5" * (len(damaged) - 4096)
    session.desk.path.write_bytes(damaged)
    answer = one(session, claim(BOB))
    assert isinstance(answer, Refused)
    assert "the file is damaged" in str(answer)
    assert "\n" not in str(answer)
    assert session.desk.path.read_bytes() == damaged


def test_standbys_are_recorded_after_the_answer_and_without_a_sync(session: Session) -> None:
    session.carry_out([claim(ADA), claim(BOB)])
    assert session.tidy()
    assert synchronous(session) == 1
    assert [status.standbys for status in elections(session)] == [(BOB,)]


def elections(session: Session) -> list[ElectionStatus]:
    answer = one(session, Request(ELECTIONS, None))
    assert isinstance(answer, list)
    return answer


def test_a_standby_that_could_not_be_recorded_is_recorded_by_the_next_try(session: Session) -> None:
    session.carry_out([claim(ADA), claim(BOB)])
    with locked(session.desk.path):
        assert not session.tidy()
    assert session.tidy()
    assert [status.standbys for status in elections(session)] == [(BOB,)]


def test_the_log_does_not_grow_without_bound(session: Session) -> None:
    log = log_of(session.desk.path)
    with closing(connect(session.desk.path)) as other:
        other.execute("PRAGMA synchronous = OFF")
        other.execute("CREATE TABLE filler (x)")
        while log.stat().st_size < LOG_MAX:
            other.execute("INSERT INTO filler VALUES (zeroblob(100000))")
    for number in range(130):
        one(session, release(BOB, number))
        session.tidy()
    one(session, claim(ADA))
    assert log.stat().st_size <= LOG_KEPT

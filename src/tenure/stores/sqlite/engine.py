"""The engine: the contract of ``stores/base`` as SQL, in plain code without threads, files or waiting.

It says the same as ``MemoryEngine``, statement by statement. Every method runs inside a transaction that the caller has
begun, at an instant that was read after the lock was had: an older one would prolong a lease by less than its ttl, and
could revive one that ended while we waited for the lock.
"""

import secrets
import sqlite3
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeVar

from tenure.model import (
    TOKEN_MAX,
    Bid,
    Conflict,
    Document,
    Ended,
    Grant,
    Holder,
    Incumbent,
    Token,
    Version,
    Wait,
)
from tenure.stores.base import ElectionStatus
from tenure.stores.sqlite.host import Host

T = TypeVar("T")

# A standby that hears nothing claims again within two and a half ttl (``Timing.recheck_after_ns``). It counts as one for
# an eighth longer, because a claim may be late, and for another eighth, in which a repeated claim is not written down
# again: a herd that is woken in vain would write each time.
_FRESH_EIGHTHS, _STILL_FRESH_EIGHTHS = 22, 21  # of a ttl

_OFFICES = (
    "SELECT token, election, host, pid, nonce, serial, since, expires, boot_id, time_namespace, resign_token, advertised"
    " FROM office"
)
_OFFICE = f"{_OFFICES} WHERE election = ?"
_TAKE = (
    "INSERT INTO office VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?) ON CONFLICT (election) DO UPDATE SET"
    " token = excluded.token, host = excluded.host, pid = excluded.pid, nonce = excluded.nonce,"
    " serial = excluded.serial, since = excluded.since, expires = excluded.expires, boot_id = excluded.boot_id,"
    " time_namespace = excluded.time_namespace, resign_token = NULL, advertised = excluded.advertised"
)
_LEAVE = (
    "UPDATE office SET host = NULL, pid = NULL, nonce = NULL, serial = NULL, expires = 0, resign_token = NULL"
    " WHERE election = ? AND host = ? AND pid = ? AND nonce = ? AND serial = ?"
)
_PROLONG = (
    "UPDATE office SET expires = ? WHERE token = ? AND election = ? AND host = ? AND pid = ? AND nonce = ? AND serial = ?"
    " AND expires > ? AND boot_id = ? AND time_namespace = ?"
)
_PROLONG_UNASKED = f"{_PROLONG} AND resign_token IS NULL"
_ASKED = "SELECT 1 FROM office WHERE token = ? AND resign_token = token"
_STAND_BY = (
    "INSERT INTO standby VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET serial = excluded.serial,"
    " fresh_until = excluded.fresh_until, boot_id = excluded.boot_id, time_namespace = excluded.time_namespace"
)
# Judged by SQLite, to which any text is more than any number: one that is none cannot even be read.
_STILL_FRESH = (
    "SELECT 1 FROM standby WHERE election = ? AND nonce = ? AND pid = ? AND host = ? AND boot_id = ?"
    " AND typeof(fresh_until) = 'integer' AND fresh_until > ?"
)
# Made with the first document, and not with the file: files that were made before there were documents go on as they are.
_DOCUMENTS = """CREATE TABLE IF NOT EXISTS document (
    key TEXT PRIMARY KEY,
    version TEXT NOT NULL,
    value BLOB NOT NULL
)"""


class Swap(NamedTuple):
    """A document to be written, if it is at ``version``."""

    key: str
    value: bytes
    version: Version | None


class Denied(Exception):
    """The engine says no, and has written nothing. The caller adds which store and which operation."""


class Renewed(NamedTuple):
    """What became of each tenure, and which of those that last were asked to resign."""

    answers: list[Grant | Ended]
    asked: list[Grant]


class _Office(NamedTuple):
    """A row as SQLite returned it, whose columns take values of any type: what is reckoned with is read by ``whole``."""

    token: int
    election: str
    host: str
    pid: int
    nonce: str | None  # None: the office is free
    serial: object
    since: object
    expires: object
    boot_id: str
    time_namespace: str
    resign_token: int | None
    advertised: str

    @property
    def holder(self) -> Holder:
        assert self.nonce is not None
        return Holder(self.host, self.pid, self.nonce)

    @property
    def incumbent(self) -> Incumbent:
        return Incumbent(self.election, self.holder, Token(self.token), self.advertised)

    def whole(self, column: Literal["serial", "since", "expires"]) -> int:
        """Return a number of this row. Denied if somebody has written something else there, which nothing can be judged by."""
        value = getattr(self, column)
        if isinstance(value, int):
            return value
        way_out = "wait for its leader to renew, or set it to 0" if column == "expires" else "set it to 0"
        raise Denied(
            f"the file was edited: in the table office, {column} of election {self.election} is {value!r} and must be a whole"
            f" number: {way_out}"
        )


_LAST_TOKEN_RULE = "must be a whole number, not below any token of the table office nor any that was ever issued"
# What to do about a text that is none, by its table.
_WAYS_OUT: Final = {
    "office": "delete that row once nobody leads",
    "standby": "delete that row, which nothing is decided by",
    "document": "put it right, or delete that row and what it says with it",
    # Whatever was the last one, it is not below that of any office.
    "store": f"last_token {_LAST_TOKEN_RULE}",
}


def _read(table: Literal["office", "standby", "document", "store"], rows: Callable[[], T]) -> T:
    """Return what is in a table. Denied if a text in it is none."""
    try:
        return rows()
    except sqlite3.OperationalError as error:
        if hasattr(error, "sqlite_errorcode"):
            raise
        # Python's own word, and not SQLite's: nothing is wrong with the file as such, nor with what is asked of other rows.
        raise Denied(f"the file was edited: in the table {table}, {error}: {_WAYS_OUT[table]}") from None


class Engine:
    """One connection's view of the file."""

    def __init__(self, connection: sqlite3.Connection, host: Host) -> None:
        self._execute, self._executemany = connection.execute, connection.executemany
        self._host = host
        # Bids that were told to wait and are not yet on record as standbys. Writing that down needs no durability and
        # no answer waits for it, so it is done afterwards (``write_standbys``).
        self._unrecorded: dict[tuple[str, Holder], tuple[Bid, int]] = {}

    def claim(self, bid: Bid, now: int) -> Grant | Wait:
        held = self._holding(bid.election, now)
        if held is not None:
            if held.holder != bid.holder:
                self._unrecorded[bid.election, bid.holder] = (bid, now)
                return Wait(bid, held.incumbent)
            serial = held.whole("serial")
            if bid.serial < serial:
                return Wait(bid, held.incumbent)
            if bid.serial == serial:
                self._execute("UPDATE office SET expires = ? WHERE token = ?", (now + bid.ttl_ns, held.token))
                return Grant(bid, Token(held.token))
        holder = bid.holder
        token, expires = self._next_token(), now + bid.ttl_ns
        self._forget_standby(bid)
        row = (token, bid.election, holder.host, holder.pid, holder.nonce, bid.serial, now, expires)
        self._execute(_TAKE, (*row, *self._here, bid.advertise))
        return Grant(bid, token)

    def renew(self, grants: list[Grant], now: int) -> Renewed:
        rows = []
        for grant in grants:
            bid, holder = grant.bid, grant.bid.holder
            whose = (grant.token, bid.election, holder.host, holder.pid, holder.nonce, bid.serial)
            rows.append((now + bid.ttl_ns, *whose, now, *self._here))
        # One call of SQLite, at half the price of a call for each. As a rule that is all there is to do: each is in office,
        # and nobody asked it to resign. If not, each is renewed by itself, which changes nothing for those that were.
        if self._executemany(_PROLONG_UNASKED, rows).rowcount == len(rows):
            return Renewed(list(grants), [])
        renewed = Renewed([], [])
        for grant, row in zip(grants, rows, strict=True):
            lasts = self._execute(_PROLONG, row).rowcount == 1
            renewed.answers.append(grant if lasts else Ended(grant.bid, grant.token))
            if lasts and self._execute(_ASKED, (grant.token,)).fetchone():
                renewed.asked.append(grant)
        return renewed

    def proclaim(self, said: tuple[Grant, str], now: int) -> Grant | Ended:
        grant, address = said
        held = self._holding(grant.bid.election, now)
        if held is None or (held.token, held.holder, held.serial) != (grant.token, grant.bid.holder, grant.bid.serial):
            return Ended(grant.bid, grant.token)
        self._execute("UPDATE office SET advertised = ? WHERE token = ?", (address, grant.token))
        return grant

    def release(self, bid: Bid) -> None:
        # No look at the clock: an office whose lease has ended is as free as one that was left.
        self._forget_standby(bid)
        holder = bid.holder
        self._execute(_LEAVE, (bid.election, holder.host, holder.pid, holder.nonce, bid.serial))

    def read(self, election: str, now: int) -> Incumbent | None:
        held = self._holding(election, now)
        return None if held is None else held.incumbent

    def expires(self, election: str, now: int) -> int | None:
        """Return when the lease of who holds the office now would end; None: it is free."""
        held = self._holding(election, now)
        return None if held is None else held.whole("expires")

    def turnover(self) -> object:
        """Return what changes whenever an office may have come free before its lease ended."""
        # As bytes, which anything can be read as: everybody who waits is told by this number, and nothing is reckoned with it.
        (turnover,) = self._execute("SELECT CAST(turnover AS BLOB) FROM store").fetchone()
        return turnover

    def ask_to_resign(self, election: str, now: int) -> Incumbent | None:
        """Leave word for whoever is in office, who finds it at its next renewal; return who that is."""
        incumbent = self.read(election, now)
        if incumbent is not None:
            self._execute("UPDATE office SET resign_token = token WHERE election = ?", (election,))
        return incumbent

    def fetch(self, key: str) -> Document | None:
        # Looked up every time: a transaction that made the table, and in which somebody found it, may yet be rolled back.
        if not self._execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'document'").fetchone():
            return None
        known = "SELECT value, version FROM document WHERE key = ?"
        row = _read("document", lambda: self._execute(known, (key,)).fetchone())
        return None if row is None else Document(*row)

    def swap(self, swap: Swap) -> Document | Conflict:
        # By chance and not by a counter, which would go back with a file that is restored from a copy.
        written = Document(swap.value, Version(secrets.token_hex(8)))
        what = (written.version, written.value, swap.key)
        if swap.version is not None and self._replace(*what, swap.version):
            return written
        current = self.fetch(swap.key)
        if swap.version is not None or current is not None:
            return Conflict(current)
        self._execute(_DOCUMENTS)
        self._execute("INSERT INTO document (version, value, key) VALUES (?, ?, ?)", what)
        return written

    def _replace(self, *what: str | bytes) -> bool:
        """Compare and write in one statement, which is all that most swaps need; False if that version is not there."""
        try:
            # In place: a row that is replaced moves, and its index with it, which is three pages and not one.
            change = "UPDATE document SET version = ?, value = ? WHERE key = ? AND version = ?"
            return self._execute(change, what).rowcount == 1
        except sqlite3.OperationalError as error:
            if str(error) == "no such table: document":  # Nothing was ever written in this file, or all of it is gone.
                return False
            raise

    def elections(self, now: int) -> list[ElectionStatus]:
        standbys: dict[str, list[Holder]] = {}
        fresh = "SELECT election, host, pid, nonce FROM standby WHERE boot_id = ? AND time_namespace = ? AND fresh_until > ?"
        listed, here = f"{fresh} ORDER BY host, pid, nonce", (*self._here, now)
        for election, *holder in _read("standby", lambda: self._execute(listed, here).fetchall()):
            standbys.setdefault(election, []).append(Holder(*holder))
        rows = map(_Office._make, _read("office", lambda: self._execute(f"{_OFFICES} ORDER BY election").fetchall()))
        return [self._status(row, tuple(standbys.get(row.election, ())), now) for row in rows]

    def write_standbys(self) -> None:
        """Record who waits, and forget who no longer does."""
        unrecorded, self._unrecorded = self._unrecorded, {}
        boot_id, time_namespace = self._here
        for bid, now in unrecorded.values():
            who = (bid.election, bid.holder.host, bid.holder.pid, bid.holder.nonce, bid.serial)
            self._execute(_STAND_BY, (*who, now + bid.ttl_ns * _FRESH_EIGHTHS // 8, boot_id, time_namespace))
            stale = "DELETE FROM standby WHERE election = ? AND (fresh_until <= ? OR boot_id <> ?)"
            self._execute(stale, (bid.election, now, boot_id))

    def must_record_standbys(self) -> bool:
        """Say whether ``write_standbys`` has something to write: a standby that is new to the file, or was heard of again."""
        for key, (bid, now) in list(self._unrecorded.items()):
            holder, still_fresh = bid.holder, now + bid.ttl_ns * _STILL_FRESH_EIGHTHS // 8
            who = (bid.election, holder.nonce, holder.pid, holder.host, self._host.boot_id)
            if self._execute(_STILL_FRESH, (*who, still_fresh)).fetchone():
                del self._unrecorded[key]
        return bool(self._unrecorded)

    @property
    def _here(self) -> tuple[str, str]:
        return self._host.boot_id, self._host.time_namespace

    def _holding(self, election: str, now: int) -> _Office | None:
        """Return the office of ``election`` if somebody holds it at ``now``."""
        found = _read("office", lambda: self._execute(_OFFICE, (election,)).fetchone())
        if found is None:
            return None
        row = _Office._make(found)
        if row.nonce is None or row.boot_id != self._host.boot_id:
            return None  # Another boot: whoever held it is gone, and its instants are of a clock that is gone too.
        if row.time_namespace != self._host.time_namespace:
            raise Denied(
                f"election {election} is held by {row.holder} in another time namespace ({row.time_namespace}, here "
                f"{self._host.time_namespace}), whose clock cannot be compared: run everything that shares this file in one"
            )
        return row if now < row.whole("expires") else None

    def _next_token(self) -> Token:
        (last,) = _read("store", lambda: self._execute("SELECT last_token FROM store").fetchone())
        if not isinstance(last, int):
            raise Denied(f"the file was edited: last_token in the table store is {last!r} and {_LAST_TOKEN_RULE}")
        if last >= TOKEN_MAX:
            raise Denied(f"all {TOKEN_MAX} tokens of this file are used up")
        self._execute("UPDATE store SET last_token = ?", (last + 1,))
        return Token(last + 1)

    def _forget_standby(self, bid: Bid) -> None:
        holder = bid.holder
        noted = self._unrecorded.get((bid.election, holder))
        if noted is not None and noted[0].serial <= bid.serial:
            del self._unrecorded[bid.election, holder]
        known = "DELETE FROM standby WHERE election = ? AND nonce = ? AND pid = ? AND host = ? AND serial <= ?"
        self._execute(known, (bid.election, holder.nonce, holder.pid, holder.host, bid.serial))

    def _status(self, row: _Office, standbys: tuple[Holder, ...], now: int) -> ElectionStatus:
        here = row.time_namespace == self._host.time_namespace
        if row.nonce is None or row.boot_id != self._host.boot_id or (here and now >= row.whole("expires")):
            return ElectionStatus(row.election, None, None, None, resign_asked=False, standbys=standbys)
        return ElectionStatus(
            row.election,
            row.incumbent,
            held_for_ns=now - row.whole("since") if here else None,
            remaining_ns=row.whole("expires") - now if here else None,
            resign_asked=row.resign_token == row.token,
            standbys=standbys,
        )

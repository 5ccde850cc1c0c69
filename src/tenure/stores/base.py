"""What every store promises: five methods, its traits, and three outcomes of a request.

The promises are checked by ``tenure.testing.check_store`` against the real engine, with no exceptions by name:
1. At most one bid holds an office at any instant of the engine.
2. A claim repeated with the same bid gets the same tenure, and every granted claim or renewal counts a full ttl from
   the moment the engine carries it out, never from an earlier one (the holder dates it from its send, rule 1).
3. A larger serial of the same holder ends whatever its earlier bids got, at once, under a larger token.
4. Tokens strictly rise per election, through release, expiry, deletion of the record and restart of the engine.
5. A renewal or release of a tenure that has ended changes nothing, whoever holds the office now.
6. ``changed`` returns whenever claiming may help, also if that was so before it was called: there is no gap between
   the answer and the wait in which a wake-up could be lost.
7. A call that is cancelled leaves nothing behind: no waiter, no connection, no half-done request that it knows of.
"""

from collections.abc import Awaitable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Generic, Protocol, TypeGuard, TypeVar, runtime_checkable
from weakref import WeakKeyDictionary

from tenure.errors import OutcomeUnknown, StoreError
from tenure.model import Bid, Conflict, Document, Ended, Grant, Holder, Incumbent, Version, Wait

T = TypeVar("T")


class Wake(StrEnum):
    """How a standby learns that claiming again may help."""

    WATCH = "watch"
    LONG_POLL = "long-poll"
    NOTIFY = "notify"
    POLL = "poll"


class Expiry(StrEnum):
    """Whose clock ends a lease that nobody renews."""

    ENGINE = "engine"
    OBSERVER = "observer"


@dataclass(frozen=True, slots=True)
class Traits:
    """What an engine promises, for callers that must know. A weak store says so here (rule 12)."""

    queue: bool  # bids take office in the order in which they first claimed
    wake: Wake
    expiry: Expiry
    token_source: str  # where the numbers come from, in words
    ttl_min_ns: int
    ttl_max_ns: int
    expiry_slack_ns: int  # how long after its ttl a dead holder's office may stay taken
    expiry_slack_ttls: int = 0  # and for how many ttls more: some engines wait for longer than they were asked to
    best_effort: str = ""  # what it cannot promise and others can, in words; empty: it keeps all that a store promises

    def slack_ns(self, ttl_ns: int) -> int:
        """Return for how long after such a ttl a dead holder's office may stay taken, all in all."""
        return self.expiry_slack_ns + self.expiry_slack_ttls * ttl_ns


class Store(Protocol):
    """One connection to one engine. Raises only ``StoreError``; "not your turn" is an answer."""

    @property
    def traits(self) -> Traits:
        """What this engine promises."""
        ...

    @property
    def address(self) -> str:
        """Where the engine is, as a URL without secrets."""
        ...

    @property
    def identity(self) -> str:
        """A name that this engine keeps for ever and no other has: fences are named by it and the election."""
        ...

    async def claim(self, bid: Bid) -> Grant | Wait:
        """Ask for the office. Safe to repeat with the same bid, which is how a lost answer is found again (rule 7)."""
        ...

    async def renew(self, grant: Grant) -> Grant | Ended:
        """Prolong a tenure by a full ttl, or say that it has ended. Never revives one."""
        ...

    async def release(self, bid: Bid) -> None:
        """End whatever this bid got: office, a place in the queue, or nothing. Never touches another bid."""
        ...

    async def changed(self, wait: Wait) -> None:
        """Return when claiming again may help. May return early, never late."""
        ...

    async def read(self, election: str) -> Incumbent | None:
        """Return who holds the office now, and where its bid said to be, as the engine decides it (not a replica's memory)."""
        ...


@runtime_checkable
class CanAskToResign(Protocol):
    """A store through which anybody may ask the incumbent to leave. A request, not an order: nothing is taken away."""

    async def ask_to_resign(self, election: str) -> Incumbent | None:
        """Leave a word for the incumbent, and return whom it was left for.

        It is found at the next renewal. Only in etcd, by a process with more than a hundred elections on one lease, it may be
        found later: a hundred elections have their turn at each renewal.
        """
        ...

    def resign_asked(self, grant: Grant) -> bool:
        """Say whether the last renewal of this grant found such a word."""
        ...


@runtime_checkable
class CanProclaim(Protocol):
    """A store in which a leader can change where it says that it can be reached."""

    async def proclaim(self, grant: Grant, address: str) -> Grant | Ended:
        """Say anew where the holder of ``grant`` is. Prolongs nothing, and changes nothing if its tenure has ended."""
        ...


@runtime_checkable
class CanRenewTogether(Store, Protocol):
    """A store that renews many tenures for the price of one."""

    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        """Renew each, as ``renew`` does, and return the answers in the same order; all fail together or none."""
        ...


@dataclass(frozen=True, slots=True)
class Roll:
    """What came of the renewal of a group: all in it were renewed by a full ttl but those who are named here."""

    ended: AbstractSet[Bid]
    asked: Sequence[Grant]  # who found a word that asks it to leave, as ``CanAskToResign`` has it
    # Whose renewals failed while others did not, where each is a request of its own. Of them nothing is known.
    missed: Mapping[Bid, "No | Unknown"] = field(default_factory=dict)


class Group(Protocol):
    """Tenures of one store that are renewed together, again and again. One that has ended stays so until it is taken out."""

    def add(self, grant: Grant) -> None:
        """Renew this tenure as well from the next call on. Prolongs nothing by itself."""
        ...

    def discard(self, grant: Grant) -> None:
        """Renew it no longer, if it is in the group; a renewal that is under way may still prolong it."""
        ...

    async def renew(self) -> Roll:
        """Renew all who were in the group when this was called. Raises as ``renew`` does, and then nothing is known of any.

        Where each is a request of its own, one that fails need not be all of them: the roll says whom it has missed.

        A tenure that has ended is named every time; it is never prolonged, whatever holds its office now.
        """
        ...


@runtime_checkable
class CanRenewGroups(CanRenewTogether, Protocol):
    """A store that keeps lists of whom to renew, so that a heartbeat costs it as much as has changed since the last one."""

    def group(self, within_ns: int) -> Group:
        """Return a new group without anybody in it. It ends with the store.

        Who renews it waits no longer than ``within_ns``: a store that asks for each by itself has then named whom it missed.
        """
        ...


@dataclass(frozen=True, slots=True)
class ElectionStatus:
    """One election as people are shown it: a picture that may be old when it is looked at. Nothing is decided by it."""

    election: str
    incumbent: Incumbent | None
    held_for_ns: int | None  # None: nobody is in office, or the clock of its holder cannot be compared with ours
    remaining_ns: int | None  # likewise
    resign_asked: bool
    standbys: tuple[Holder, ...]  # who waits; one that dies without a word is counted for up to 2.75 ttl more


@runtime_checkable
class CanList(Protocol):
    """A store that can say which elections it has."""

    async def elections(self) -> list[ElectionStatus]:
        """Return every election that was ever held here, by name: who is in office, and who waits."""
        ...


@runtime_checkable
class CanKeepDocuments(Protocol):
    """A store that keeps documents: a value under a key, replaced by whoever names the version that is there.

    Keys are names as elections have them, and no document is ever an election of the same name or any part of it. A version
    is never given twice to one key, also if its value is once more what it was; ``document_contract`` checks it all.
    """

    async def fetch(self, key: str) -> Document | None:
        """Return what is kept under ``key``, as the engine decides it (not a replica's memory); None: nothing."""
        ...

    async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        """Write ``value`` if the document is at ``version`` (None: if there is none), durably and in one step.

        Returns what was written, under its new version. A repeat of a swap that was carried out is a Conflict.
        """
        ...


_OFFERED: Final["WeakKeyDictionary[object, dict[type, bool]]"] = WeakKeyDictionary()


def offers(store: object, protocol: type[T]) -> TypeGuard[T]:
    """Say whether a store is also a ``protocol`` of this file, as isinstance does, which takes half as long as a request.

    Of each store it is asked once: not of each class, since one that wraps another offers what that one does.
    """
    try:
        known = _OFFERED.setdefault(store, {})
    except TypeError:  # A store that cannot be a key, or not weakly, is asked each time.
        return isinstance(store, protocol)
    if protocol not in known:
        known[protocol] = isinstance(store, protocol)
    return known[protocol]


@dataclass(frozen=True, slots=True)
class Ok(Generic[T]):
    """The engine answered."""

    value: T


@dataclass(frozen=True, slots=True)
class No:
    """Definite: it was not carried out."""

    error: StoreError


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may have been carried out, or may still be."""

    error: OutcomeUnknown


async def outcome_of(call: Awaitable[T]) -> Ok[T] | No | Unknown:
    """Turn a store's call into one of three typed outcomes. Cancellation and programming errors pass through."""
    try:
        return Ok(await call)
    except OutcomeUnknown as error:
        return Unknown(error)
    except StoreError as error:
        return No(error)

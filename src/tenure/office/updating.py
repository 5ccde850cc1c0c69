"""One update of a document: read it, have it changed, and write it if nobody else has meanwhile; else again.

Rules of this file
1. The store is asked on the office's loop (or on the user's, if the store works elsewhere anyway), and the user's function is called where the user called: one that takes long must not
   keep a renewal waiting (rule 9). Between them goes a flow, which yields what is to be asked and is sent the answer.
2. A lost answer to a write is settled before anything else is done: the same write is sent again, for the same version. It
   is carried out once at most, because the first to arrive uses up that version.
3. What this process has last seen of a document is tried first, without a read: the write names its version, and if that is not
   there any more the answer says what is. So most updates are one request. What the function makes of it counts only if that
   lands; what it raises, or leaves as it was, is judged by what is there now.
4. OutcomeUnknown is raised only if the write may have landed, or may still. Every other error says that it has not.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tenure.clock import BootClock, Clock
from tenure.errors import ConfigError, Contended, OutcomeUnknown, Refused, Unreachable
from tenure.model import Conflict, Document, Version
from tenure.office.names import check_name
from tenure.stores.base import CanKeepDocuments, No, Ok, Store, Unknown, outcome_of
from tenure.stores.trail import VALUE_BYTES_MAX, Entry, Fate, fate_of, follow, unpack
from tenure.timing import Seconds, to_ns

WITHIN_S: Final = 10.0  # As long as an engine may need to fail over to another of its nodes.
# The pause before the next try is drawn from nothing up to a ceiling, which begins near the length of a write and doubles:
# so those who met once do not meet again, and a crowd spreads until each has room.
_PAUSE_MIN_S, _PAUSE_MAX_S = 0.002, 0.25
# What is sent gets this long to be answered, whatever is left: an answer that is not awaited is an unknown outcome.
_ANSWER_MIN_S: Final = 1.0
# What is remembered of documents, so that whoever writes one again and again need not read it each time: at most 1 MiB.
_KNOWN_MAX: Final = 64
_KNOWN_BYTES_MAX: Final = 16 * 1024

T = TypeVar("T")
Change = Callable[[bytes | None], bytes]
Flow = Generator[Coroutine[Any, Any, Any], Any, bytes]


def flow_of(store: Store, key: str, fn: Change, within: Seconds, known: "Known | None" = None) -> Flow:
    """Return the flow of one update, from its checks to the value that is there at its end."""
    within_ns = to_ns("within", within)
    if within_ns <= 0:
        raise ConfigError("within", within, "must be more than 0")
    clock, known = BootClock(), known or Known()
    place = known.place = known.place or _place_of(store)
    return _Update(*place, check_name(key, "key"), fn, known, clock, clock.now() + within_ns).flow()


def proceed(flow: Flow, answer: Any) -> tuple[Coroutine[Any, Any, Any] | None, bytes]:
    """Give a flow its answer, and return what it asks next; None: it has ended, with the value beside."""
    try:
        return flow.send(answer), b""
    except StopIteration as done:
        return None, done.value


async def read(store: Store, key: str) -> Document | None:
    """Return the document of that key, on the office's loop."""
    keeper, address = _place_of(store)
    found = await keeper.fetch(check_name(key, "key"))
    return None if found is None else Document(unpack(address, key, found).value, found.version)


def _place_of(store: Store) -> tuple[CanKeepDocuments, str]:
    if not isinstance(store, CanKeepDocuments):
        why = getattr(store, "no_documents", "it elects, and no more")
        raise ConfigError("store", store.address, f"keeps no documents: {why}")
    return store, store.address


@dataclass(frozen=True, slots=True)
class _Seen:
    """A document as it was read or written."""

    entry: Entry
    version: Version


class Known:
    """What one store has last shown of some documents, so that the next update of one need not read it first.

    Nothing is decided by it: a write names the version, and lands only if that is still there. Safe to use from any thread.
    ``place``: the store itself, once it was looked at. To ask an object whether it has what a protocol demands takes 9 µs, as much as two
    statements of SQLite.
    """

    place: tuple[CanKeepDocuments, str] | None = None

    def __init__(self) -> None:
        self._of: dict[str, _Seen] = {}

    def get(self, key: str) -> _Seen | None:
        return self._of.get(key)

    def put(self, key: str, seen: _Seen | None) -> None:
        self._of.pop(key, None)  # so that it becomes the youngest
        if seen is not None and len(seen.entry.value) <= _KNOWN_BYTES_MAX:
            self._of[key] = seen
            if len(self._of) > _KNOWN_MAX:
                with suppress(StopIteration, RuntimeError):  # Others may be at it as well.
                    self._of.pop(next(iter(self._of)), None)


class _Judged:
    """What a function raises counts only if it was shown what is there now; else it is asked again."""

    def __init__(self, *, fresh: bool) -> None:
        self._fresh = fresh

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        return isinstance(error, Exception) and not self._fresh


@dataclass(slots=True)
class _Update:
    keeper: CanKeepDocuments
    address: str
    key: str
    fn: Change
    known: Known
    clock: Clock
    deadline: int
    pause_s: float = _PAUSE_MIN_S

    def flow(self) -> Flow:
        seen = self.known.get(self.key)
        fresh = seen is None
        if fresh:
            seen = yield self._fetch(0.0)
        try_count = 0
        while True:
            old, value = None if seen is None else seen.entry.value, None
            with _Judged(fresh=fresh):
                value = self._changed(old)
            if value is None or value == old:
                if fresh and value is not None:
                    return value
                seen, fresh = (yield self._fetch(0.0)), True
                continue
            self.known.put(self.key, None)  # until it is known what came of this
            answer: _Seen | Conflict = yield self._swap(follow(None if seen is None else seen.entry, value), seen)
            if isinstance(answer, _Seen):
                self.known.put(self.key, answer if answer.entry.value is value else None)
                return value
            try_count += fresh
            if self.clock.now() >= self.deadline:
                detail = f"others wrote {self.key!r} first, {try_count} times; nothing was written"
                raise Contended(self.address, "update", detail)
            # The first time the answer is as good as a read, and whoever came first is done. After that there is a crowd.
            seen = self._seen(answer.current) if try_count <= 1 else (yield self._fetch(self._next_pause_s()))
            fresh = True

    def _changed(self, old: bytes | None) -> bytes:
        value = self.fn(old)
        if not isinstance(value, bytes):
            raise ConfigError(f"new value of {self.key!r}", type(value).__name__, "must be bytes")
        if len(value) > VALUE_BYTES_MAX:
            rule = f"must have at most {VALUE_BYTES_MAX}: keep what is large elsewhere, and here where it is"
            raise ConfigError(f"new value of {self.key!r}", f"{len(value)} bytes", rule)
        return value

    def _seen(self, found: Document | None) -> _Seen | None:
        return None if found is None else _Seen(unpack(self.address, self.key, found), found.version)

    async def _fetch(self, pause_s: float) -> _Seen | None:
        """Read after a pause, on the office's loop. A read is asked again until it is answered: it changes nothing."""
        while True:
            if pause_s:
                await asyncio.sleep(pause_s)
            outcome = await self._ask(self.keeper.fetch(self.key))
            if isinstance(outcome, Ok):
                return self._seen(outcome.value)
            if isinstance(outcome.error, Refused):
                raise outcome.error
            if not self._left_s():
                detail = f"what is there could not be read, so nothing was written: {outcome.error.detail}"
                raise Unreachable(self.address, "update", detail) from outcome.error
            pause_s = self._next_pause_s()

    async def _swap(self, entry: Entry, seen: _Seen | None) -> _Seen | Conflict:
        """Write once, on the office's loop, and do not return before it is known what came of it."""
        value, version = entry.pack(), None if seen is None else seen.version
        unknown: OutcomeUnknown | None = None
        pause_s = 0.0  # The sooner it is asked again, the fewer others have written since.
        while True:
            outcome = await self._ask(self.keeper.swap(self.key, value, version))
            if isinstance(outcome, Ok):
                answer = outcome.value
                if isinstance(answer, Document):
                    return _Seen(entry, answer.version)
                return answer if unknown is None else self._settled(answer, entry, seen, unknown)
            if isinstance(outcome, Unknown):
                unknown = unknown or outcome.error
            if isinstance(outcome.error, Refused) or not self._left_s():
                raise unknown or outcome.error
            await asyncio.sleep(pause_s)
            pause_s = self._next_pause_s()

    async def _ask(self, call: Awaitable[T]) -> Ok[T] | No | Unknown:
        try:
            async with asyncio.timeout(max(self._left_s(), _ANSWER_MIN_S)):
                return await outcome_of(call)
        except TimeoutError:
            return Unknown(OutcomeUnknown(self.address, "update", "no answer in time"))

    def _settled(self, answer: Conflict, entry: Entry, seen: _Seen | None, unknown: OutcomeUnknown) -> _Seen | Conflict:
        """Say what came of a write that was sent more than once, and whose version is no longer there."""
        current = self._seen(answer.current)
        fate = fate_of(entry, None if seen is None else seen.entry, None if current is None else current.entry)
        if fate is Fate.UNKNOWN:
            detail = f"others wrote {self.key!r} so often since then that it cannot be told: {unknown.detail}"
            raise OutcomeUnknown(self.address, "update", detail) from unknown
        return answer if fate is Fate.LOST or current is None else current

    def _left_s(self) -> float:
        return max(0, self.deadline - self.clock.now()) / 1e9

    def _next_pause_s(self) -> float:
        ceiling_s, self.pause_s = self.pause_s, min(2 * self.pause_s, _PAUSE_MAX_S)
        return min(random.uniform(0, ceiling_s), self._left_s())

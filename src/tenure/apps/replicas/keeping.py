"""Reports and the record of a replica set, kept as documents of a store."""

import json
from collections.abc import Collection, Iterable
from typing import Final

from tenure.apps.replicas.fitness import Fit, Record, Report, Unfit, fitness
from tenure.clock import BootClock, Clock
from tenure.errors import ConfigError, StaleToken
from tenure.model import Token
from tenure.office.opened import LoopStore
from tenure.sinks.base import Bound
from tenure.timing import Seconds, to_ns

_ALIVE_S: Final = 1.0


class Replicas:
    """One member's view of its replica set.

    Promises that whoever has taken over has every commit that was acknowledged before, and that a primary that was succeeded
    cannot change the record any more. Does not promise that members are what they say of themselves, nor that a database waits for whom it should: say so to the
    database first, and see that it does, before you ``record`` it.
    """

    def __init__(  # noqa: PLR0913  (each has a default but the first four)
        self,
        store: LoopStore,
        name: str,
        member: str,
        others: Iterable[str],
        *,
        alive_within: Seconds = _ALIVE_S,
        clock: Clock | None = None,
    ) -> None:
        """Keep documents under ``name``. Who has not reported ``alive_within`` this time, on our own clock, is not waited for."""
        self._store, self._name, self.member = store, name, member
        self._others = sorted({*others} - {member})
        for part in (member, *self._others):
            if not part or "/" in part:
                raise ConfigError("member", repr(part), "must be a name without a slash")
        self._alive_ns = to_ns("alive_within", alive_within)
        self._clock: Clock = BootClock() if clock is None else clock
        self._beat = 0
        self._seen: dict[str, tuple[str, int]] = {}  # the last beat of each, and when it was first seen here

    async def report(self, position: int) -> None:
        """Say how far this member has come, and take note of who else lives. Call it a few times per ``alive_within``."""
        self._beat += 1
        # The clock tells the beats of a process from those of the one before it.
        mine = json.dumps({"position": position, "beat": f"{self._clock.now()}/{self._beat}"}).encode()
        await self._store.update(f"{self._name}/position/{self.member}", lambda _: mine)
        await self._living()

    async def fitness(self, position: int) -> Fit | Unfit:
        """Judge whether this member, which is at ``position`` now, may be the primary: what ``eligible=`` of an election asks."""
        return fitness(self.member, position, await self._living(), await self.record_now())

    async def take_over(self, term: Bound) -> Record | Unfit:
        """Record this member as the primary in this tenure, which waits for nobody yet; or say why it must not be that.

        Judged and recorded in one step: the last primary may have stopped to wait for this member since ``fitness`` was asked.
        From here on it can stop to wait for nobody. Raises StaleToken if a later primary has taken over.
        """
        new = Record(Token(term.token), self.member, frozenset())
        unfit: Unfit | None = None

        def change(found: bytes | None) -> bytes:
            nonlocal unfit
            unfit = None
            if found is not None:
                before = _in_order(found, new)
                verdict = fitness(self.member, 0, {}, before)
                if isinstance(verdict, Unfit):
                    unfit = verdict
                    return found
            return _encoded(new)

        await self._store.update(f"{self._name}/acknowledged", change)
        return unfit or new

    async def record(self, term: Bound, synchronous: Collection[str]) -> Record:
        """Record whom this primary waits for. Raises StaleToken if it is not the one that took over last.

        Adding a name: have the database wait for it, see it catch up, then record it. Leaving one out: the other way round.
        """
        new = Record(Token(term.token), self.member, frozenset(synchronous))

        def change(found: bytes | None) -> bytes:
            if found is None or (before := _in_order(found, new)).token != new.token or before.primary != new.primary:
                raise ConfigError("record", self.member, "must take over first")
            return _encoded(new)

        await self._store.update(f"{self._name}/acknowledged", change)
        return new

    async def record_now(self) -> Record | None:
        """Return who has every commit that was acknowledged; None: there was no primary yet."""
        found = await self._store.document(f"{self._name}/acknowledged")
        return None if found is None else _record(found.value)

    async def _living(self) -> dict[str, Report]:
        living, now = dict[str, Report](), self._clock.now()
        for name in self._others:
            found = await self._store.document(f"{self._name}/position/{name}")
            if found is None:
                continue
            told = json.loads(found.value)
            report = Report(told["position"], told["beat"])
            beat, since = self._seen.get(name, ("", now))
            if beat != report.beat:
                since = now
                self._seen[name] = report.beat, now
            if now - since < self._alive_ns:
                living[name] = report
        return living


def _encoded(record: Record) -> bytes:
    told = {"token": record.token, "primary": record.primary, "synchronous": sorted(record.synchronous)}
    return json.dumps(told).encode()


def _in_order(found: bytes, new: Record) -> Record:
    before = _record(found)
    if before.token > new.token:
        raise StaleToken(new.token, before.token)
    return before


def _record(found: bytes) -> Record:
    told = json.loads(found)
    return Record(told["token"], told["primary"], frozenset(told["synchronous"]))

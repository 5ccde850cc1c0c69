"""The roster and the seats of one set of shards, as the store has them."""

from collections.abc import Callable, Collection

from tenure.apps.shards.roster import Roster, Seated, load
from tenure.apps.shards.terms import seat_name
from tenure.election import Election
from tenure.errors import ConfigError
from tenure.model import Holder, Version
from tenure.office.opened import LoopStore
from tenure.timing import Timing


class Book:
    """What one member reads and writes of its set. Used by one task at a time."""

    def __init__(self, store: LoopStore, name: str, count: int, timing: Timing, holder: Holder) -> None:
        self._store, self._name, self._count = store, name, count
        self._timing, self._holder = timing, holder
        self._key = f"{name}/roster"
        self._read: tuple[Version, Roster] | None = None  # Ten thousand owners are not worked out again at every look.

    def shard(self, number: int) -> Election:
        """Return the election of a shard."""
        return Election(self._store, f"{self._name}/{number}", timing=self._timing, holder=self._holder)

    def seat(self, member: str) -> Election:
        """Return the election of a member's seat: as long as somebody is in it, that member is there."""
        return Election(self._store, seat_name(self._name, member), timing=self._timing, holder=self._holder)

    async def read(self) -> Roster:
        """Return the roster as it is now."""
        document = await self._store.document(self._key)
        if document is None:
            return Roster.empty(self._count)
        if self._read is None or self._read[0] != document.version:
            self._read = document.version, load(self._key, document.value)
        return self._read[1]

    async def change(self, change: Callable[[Roster], Roster]) -> Roster:
        """Change the roster, and return what it is then. Raises ConfigError if it is of another number of shards."""

        def changed(old: bytes | None) -> bytes:
            roster = Roster.empty(self._count) if old is None else load(self._key, old)
            return change(self.checked(roster)).dump()

        return load(self._key, await self._store.update(self._key, changed))

    async def join(self, member: str, seated: Seated) -> Roster:
        """Take a place in the roster. Who finds one of another number of shards starts it anew, if all in it are gone."""
        roster = await self.read()
        if roster.count != self._count:
            others = roster.after(member)  # Its own seat it has itself.
            if len(await self.vacant(roster, others)) == len(others):
                fresh, was = Roster.empty(self._count).dump(), roster.dump()
                await self._store.update(self._key, lambda old: fresh if old == was else old or fresh)
        return await self.change(lambda roster: roster.seat(member, seated))

    async def vacant(self, roster: Roster, names: Collection[str]) -> list[tuple[str, int]]:
        """Return which of these members have nobody in their seat, each with the token that it had; up to the first who has.

        A seat under a larger token is one that came back, and is about to say so.
        """
        gone = []
        for name in names:
            if await self.seat(name).incumbent() is not None:
                break
            gone.append((name, roster.members[name].token))
        return gone

    def checked(self, roster: Roster) -> Roster:
        """Return the roster if it is of as many shards as ours."""
        if roster.count != self._count:
            rule = f"must be the same for all members, and those of {self._name!r} say {roster.count}: say so too, or stop them first"
            raise ConfigError("shards", self._count, rule)
        return roster

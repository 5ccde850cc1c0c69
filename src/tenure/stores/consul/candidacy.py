"""One bid's way to the office: a look at its key, the key itself, and the word of its session. Runs on asyncio.

A claim reads the key as the servers decide it, or was told by a wait that nobody holds it, and then takes it in one
transaction; beside that goes one renewal of the session. A renewal is that and a look at the key (``roll``): a session that
lives says nothing of the key, and a key says nothing of how long its session will live.
"""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from tenure.clients.consul.client import ConsulClient
from tenure.clients.consul.failures import Conflict
from tenure.clients.consul.messages import Pair, lock, put_if_unchanged, unchanged
from tenure.errors import OutcomeUnknown, StoreError
from tenure.model import Grant, Wait, token
from tenure.stores.consul.layout import LOCK_FLAG, check_lock, entry_in, incumbent_of, token_in
from tenure.stores.consul.roll import call_the_roll, leave, write_anew
from tenure.stores.consul.sessions import Place, Session, SessionGone, Sessions
from tenure.stores.consul.waits import Waits, again_after_s, delayed_s

_TRIES_MAX: Final = 4


class Candidacy:
    """Takes the places of a store through their claims, renewals and waits."""

    def __init__(self, client: ConsulClient, sessions: Sessions, waits: Waits) -> None:
        self._client, self._sessions, self._waits = client, sessions, waits
        self._highest = 0  # the largest token that was given out here

    async def ask(self, place: Place, session: Session, asked_at: int) -> Grant | Wait | None:
        """Look at the key, and take it if nobody has it. None: it is not what it was thought to be; ask again."""
        if session.gone:
            raise SessionGone(self._client.address, "claim")
        if place.token:
            return await self._confirm(place, session, asked_at)
        free_at, place.free_at = place.free_at, None
        if free_at is None:
            pair = await self._client.get(place.key, operation="claim")
            check_lock(pair, self._client.address, "claim")
            if pair is not None and pair.session == session.name and self._is_ours(place, pair):
                # An earlier try has arrived, whose answer was lost.
                if token_in(pair) <= place.floor:
                    raise await self._went_back(place, session, place.floor, token_in(pair))
                await self._sessions.renew(session, asked_at)
                granted = self._grant(place, token_in(pair), pair.modify_index)
                place.resign_asked = entry_in(pair).resign_asked
                return granted
            if pair is not None and pair.session not in {"", session.name}:
                place.wait_from, place.freed_at_s = pair.modify_index, None
                return Wait(place.bid, incumbent_of(place.bid.election, pair))
            free_at = 0 if pair is None else pair.modify_index
        # A key is never locked for being absent: "no key" comes back, as ``consul lock`` deletes it, and with it a lock that
        # was given up unanswered would land. An index does not come back. Only the first claim of an election pays for this.
        free_at = free_at or await self._make_key(place)
        return None if free_at is None else await self._lock(place, session, free_at, asked_at)

    async def _make_key(self, place: Place) -> int | None:
        """Make the key, in nobody's hands, and return its index. None: somebody was quicker."""
        try:
            (made,) = await self._client.txn([put_if_unchanged(place.key, b"", LOCK_FLAG, 0)], operation="claim")
        except Conflict:
            return None
        return made.modify_index

    async def _lock(self, place: Place, session: Session, free_at: int, asked_at: int) -> Grant | Wait | None:
        renewal = asyncio.ensure_future(self._sessions.renew(session, asked_at))
        taking = lock(place.key, place.entry.encode(), LOCK_FLAG, session.name)
        highest = self._highest
        try:
            *_, taken = await self._client.txn([unchanged(place.key, free_at), taking], operation="claim")
        except Conflict as conflict:
            if conflict.says("invalid session"):
                self._sessions.lose(session)
                raise SessionGone(self._client.address, "claim") from conflict
            place.delayed = conflict.says("lock delay")
            if not place.delayed:
                return None
            place.free_at = free_at  # It stays as it is until somebody may take it.
            return Wait(place.bid, None)
        except OutcomeUnknown:
            if place.guard is None:  # Else an earlier one, sent when the tokens were smaller, may be what has arrived.
                place.floor = highest
            place.guard = free_at
            raise
        finally:
            if not renewal.done():
                await asyncio.wait([renewal])
            renewal.exception()  # Looked at also if the request itself has failed.
        if taken.modify_index <= highest:
            place.guard = free_at
            raise await self._went_back(place, session, highest, taken.modify_index)
        granted = self._grant(place, taken.modify_index, taken.modify_index)
        try:
            renewal.result()  # A key without the session's word for it is none.
        except SessionGone:
            raise
        except StoreError as error:  # Whatever became of this request, the key has been taken.
            raise OutcomeUnknown(self._client.address, "claim", error.detail) from error
        return granted

    async def _went_back(self, place: Place, session: Session, highest: int, found: int) -> OutcomeUnknown:
        """Give back a key whose token is not larger than those before it, and return what to say of it."""
        place.floor = highest  # If the key cannot be given back now, whoever finds it knows what it is.
        with suppress(StoreError):
            await leave(self._client, session, place)
            place.guard = None
        rule = f"Consul went back from index {highest} to {found}, as a restored snapshot does"
        return OutcomeUnknown(
            self._client.address, "claim", f"{rule}: make sure that no old leader runs, then start again"
        )

    def _grant(self, place: Place, number: int, index: int) -> Grant:
        place.token, place.index, place.guard = number, index, None
        place.leading, place.resign_asked = True, False
        self._highest = max(self._highest, number)
        return Grant(place.bid, token(number))

    async def _confirm(self, place: Place, session: Session, asked_at: int) -> Grant | None:
        if place in await self.look(session, [place], asked_at):
            place.token, place.leading = 0, False
            return None
        place.leading = True
        return Grant(place.bid, token(place.token))

    async def look(self, session: Session, places: Sequence[Place], asked_at: int) -> set[Place]:
        """Renew a session, and see which of these places have lost their key, both after ``asked_at``."""
        roll = asyncio.ensure_future(call_the_roll(self._client, session, places))
        try:
            await self._sessions.renew(session, asked_at)
            return await roll
        finally:
            roll.cancel()
            await asyncio.gather(roll, return_exceptions=True)

    async def proclaim(self, place: Place, address: str) -> bool:
        """Write anew where a leader is. A word to resign that was written meanwhile stays."""
        session = place.lease
        if session is None or not place.leading:
            return False
        place.entry = replace(place.entry, advertised=address)
        for _ in range(_TRIES_MAX):
            if await write_anew(self._client, place):
                return True
            if await call_the_roll(self._client, session, [place]):
                return False
        raise OutcomeUnknown(self._client.address, "proclaim", "the key changed with every try")

    async def wait(self, place: Place) -> None:
        """Return when taking the key may help."""
        if place.delayed:
            place.delayed = False
            await asyncio.sleep(delayed_s(random.random(), self._delay_left_s(place)))
            return
        index = place.wait_from
        while True:
            pair, index = await self._waits.changed(place.key, index)
            if pair is None or not pair.session:
                # It can be taken as it was just seen, without another look. If it is no lock, the claim says so.
                is_lock = pair is None or pair.flags == LOCK_FLAG
                place.free_at = (0 if pair is None else pair.modify_index) if is_lock else None
                place.freed_at_s = asyncio.get_running_loop().time()
                return
            if place.lease is not None and pair.session == place.lease.name:
                return  # A lock of ours, whose answer was lost.
            # Somebody has written what changes nothing for us, or a while has passed.
            await asyncio.sleep(again_after_s(random.random()))

    @staticmethod
    def _delay_left_s(place: Place) -> float:
        """Return how long the engine keeps a key empty still, if its last holder had the lock-delay that we have; 0: not known."""
        if place.freed_at_s is None:
            return 0.0
        return max(0.0, place.freed_at_s + place.lock_delay_ns / 1e9 - asyncio.get_running_loop().time())

    @staticmethod
    def _is_ours(place: Place, pair: Pair) -> bool:
        entry = entry_in(pair)
        return entry.holder == place.bid.holder and entry.serial == place.bid.serial

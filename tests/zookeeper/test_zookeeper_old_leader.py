"""A leader of the ensemble that was frozen, and does not know as it wakes up that there is another one.

It says "leader" for up to half a tick more, answers reads and ``sync`` from what it knew, and has its followers' last words in
its sockets: a transaction that they agreed to is carried out, and told of, when it is long over what the ensemble says.
"""

import asyncio
import re
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest
from anyio import to_thread

from tenure.clients.zookeeper import Fault, LinkLost
from tenure.clients.zookeeper.wire import delete, get_children, sync
from tenure.errors import OutcomeUnknown, Unreachable
from tenure.model import Bid, Ended, Grant, Wait
from tenure.stores.zookeeper import ZooKeeperStore, from_url
from tenure.stores.zookeeper.names import contenders
from tenure.testing.engines import Node, ZooKeeperEnsemble
from tests.sharing import TICK_MS
from tests.zookeeper.zookeeper_rig import (
    bid,
    move,
    operator,
    renewed,
    server_of,
    session_of,
    takes_over,
    until,
    waits,
    wins,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

ROUNDS = 3
# A connection is kept for a fifth of this without an answer: for longer than the others take to agree on a new leader, so
# that everything that was asked meanwhile lies in the old one's sockets as it wakes up.
TTL_NS = 40_000_000_000
SHORTER_TTL_NS = 15_000_000_000  # a server that does not answer is left for another one in 3 s
RENEWALS = 20
LOOK_S = 0.01
PROPOSED = re.compile(r"zk_proposal_count\t(\d+)")


class Answers:
    """Asks again and again, and keeps what was answered."""

    def __init__(self, store: ZooKeeperStore) -> None:
        self.store = store
        self.told: list[Grant | Wait | Ended] = []

    async def renew(self, grant: Grant) -> None:
        while True:
            with suppress(Unreachable, OutcomeUnknown):
                self.told.append(await self.store.renew(grant))
            await asyncio.sleep(LOOK_S)

    async def stand_by(self, wait: Wait) -> None:
        while True:
            with suppress(Unreachable, OutcomeUnknown):
                await self.store.changed(wait)
                self.told.append(await self.store.claim(wait.bid))
            await asyncio.sleep(LOOK_S)


class Story:
    """Ada leads and bob stands by at the leader of the ensemble; cleo waits elsewhere.

    The leader freezes, with the resignation of bob's predecessor under way. The others agree on a new leader, and there
    neither ada nor bob has a place any more, by hand: cleo has both offices. Then the old leader wakes up.
    """

    def __init__(self, ensemble: ZooKeeperEnsemble, name: str, old: Node) -> None:
        self.ensemble, self.old = ensemble, old
        self.others = [node for node in ensemble.nodes if node is not old]
        self.held, self.handed = f"{name}/held", f"{name}/handed"
        self.tasks: list[asyncio.Task[None]] = []

    def url(self, *nodes: Node) -> str:
        return f"zookeeper://{','.join(node.endpoint for node in nodes)}?tick={TICK_MS / 1000}"

    def bid(self, election: str) -> Bid:
        return bid(election, ttl_ns=TTL_NS)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.create_task(work))

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)

    def _proposed(self) -> int:
        found = PROPOSED.search(self.ensemble.ask(self.old, "mntr"))
        assert found is not None
        return int(found[1])

    async def freeze(self, resigning: Coroutine[Any, Any, None]) -> None:
        """Freeze the leader so that it has the consent of its followers in its sockets, and has not read it."""
        before = self._proposed()
        for node in self.others:
            node.pause()
        self.begin(resigning)

        async def proposed() -> bool:
            return self._proposed() > before

        await until(proposed)
        self.old.pause()
        for node in self.others:
            node.resume()

    async def succeed(self, cleo: ZooKeeperStore, waiting: list[Wait]) -> list[Grant]:
        """Have a new leader, and the nodes of all who stand at the old one deleted there."""
        await to_thread.run_sync(self.ensemble.leader)
        async with operator(self.url(*self.others)) as looking:
            for election in (self.held, self.handed):
                names, _ = await looking.ask(get_children(f"/{election}"))
                for one in contenders(names)[:-1]:
                    await looking.ask(delete(f"/{election}/{one.name}"))
        return [await takes_over(cleo, wait) for wait in waiting]

    async def play(self) -> bool:
        """Return whether the old leader told of what was over as if it were not."""
        async with (
            from_url(self.url(self.old)) as ada,
            from_url(self.url(self.old)) as leaving,
            from_url(self.url(self.old)) as bob,
            from_url(self.url(*self.others)) as cleo,
            operator(self.url(self.old)) as control,
            AsyncExitStack() as stack,
        ):
            stack.push_async_callback(self.end)
            grant, resigned = await wins(ada, self.bid(self.held)), await wins(leaving, self.bid(self.handed))
            standing, idle = await waits(bob, self.bid(self.handed)), await waits(bob, self.bid(self.held))
            waiting = [await waits(cleo, self.bid(election)) for election in (self.held, self.handed)]
            renewals, claims = Answers(ada), Answers(bob)
            self.begin(claims.stand_by(standing))
            await self.freeze(leaving.release(resigned.bid))
            # What is sent from now on lies in front of the old leader as it wakes up, and its followers hear nothing of it.
            self.begin(renewals.renew(grant))
            offices = await self.succeed(cleo, waiting)
            self.begin(bob.changed(idle))
            caught_up, listed = control.send(sync("/")), control.send(get_children(f"/{self.held}"))
            await asyncio.sleep(LOOK_S)
            self.old.resume()
            await to_thread.run_sync(self.ensemble.mend)

            async def heard() -> bool:
                return bool(renewals.told and claims.told)

            await until(heard)
            assert set(renewals.told) == {Ended(grant.bid, grant.token)}
            assert [one for one in claims.told if isinstance(one, Grant)] == []
            assert [await cleo.renew(office) for office in offices] == offices
            await caught_up
            answer = await listed
            return not isinstance(answer, LinkLost | Fault) and len(answer[0]) > 1


async def test_a_leader_that_wakes_up_and_was_succeeded_renews_nothing_and_grants_nothing(
    patient: ZooKeeperEnsemble,
) -> None:
    lied_count = 0
    for number in range(ROUNDS):
        old = await to_thread.run_sync(patient.leader)
        lied_count += await Story(patient, f"old-leader/{number}", old).play()
    assert lied_count > 0  # to who does not ask the quorum


async def test_a_tenure_at_a_leader_that_freezes_goes_on_elsewhere_and_when_it_wakes_up(
    patient: ZooKeeperEnsemble,
) -> None:
    old = await to_thread.run_sync(patient.leader)
    async with from_url(f"{patient.url}?tick={TICK_MS / 1000}") as store:
        grant = await wins(store, bid("old-leader/left", ttl_ns=SHORTER_TTL_NS))
        await move(store, grant, old.endpoint)
        old.pause()
        assert await renewed(store, grant) == grant
        assert server_of(session_of(store, grant.bid)) != old.endpoint
        old.resume()
        for _ in range(RENEWALS):
            assert await renewed(store, grant) == grant
        await to_thread.run_sync(patient.mend)
        await move(store, grant, old.endpoint)  # It follows now, and is as good as any.
        assert await renewed(store, grant) == grant

"""The part of the store contract that concerns those who wait, and those who stop waiting.

A wait that ends late is a leaderless time that no timeout explains, and a call that is cancelled and leaves something
behind is one that blocks the election for others: both are rare in use and cheap to provoke here.
"""

from collections.abc import Awaitable, Callable
from functools import partial

import anyio
from anyio.lowlevel import checkpoint

from tenure.model import Wait
from tenure.testing.rig import Candidate, Play, Promises, Standby, expect

# After how many turns of the event loop a call is cancelled: before it began, while it is being sent, while it is
# under way. A call that has ended by then was not cancelled, which does no harm.
CANCELLED_AFTER = (0, 1, 2, 3, 5, 8)
# A watch may wake for nothing now and then (a keepalive, a long poll that ends); each time costs the engine a claim.
_IDLE_WAKES_MAX = 5

WAITING = Promises()


@WAITING.keep("wakes-on-release")
async def _wakes_on_release(play: Play) -> None:
    leader, successor, waiter = await play.enter(3)
    await leader.wins()
    await successor.waits()
    wait = await waiter.waits()
    await leader.leaves()
    await successor.wins()
    # The incumbent that the answer named is gone and another came: the wait is for the office, not for a name.
    async with play.standby(waiter, wait) as standby:
        expect(not standby.won(), "a claim was granted while somebody else was in office")
        await successor.leaves()
        await play.soon(standby.won, "the office was released, but the one who waits did not take it")


@WAITING.keep("wakes-on-expiry")
async def _wakes_on_expiry(play: Play) -> None:
    leader, waiter = await play.enter(2)
    grant = await leader.wins()
    async with play.standby(waiter, await waiter.waits()) as standby:
        await play.rig.pass_time(play.ttl_ns // 2)
        await leader.keeps(grant)
        await play.rig.pass_time(play.ttl_ns // 2)
        expect(not standby.won(), "the office was taken half a ttl after it had been renewed")
        await play.within(play.ttl_ns, standby.won, "the office expired, but the one who waits did not take it")


@WAITING.keep("wakes-on-deletion")
async def _wakes_on_deletion(play: Play) -> None:
    leader, waiter = await play.enter(2)
    await leader.wins()
    async with play.standby(waiter, await waiter.waits()) as standby:
        await play.rig.delete_record(play.election)
        await play.soon(standby.won, "the record was deleted, but the one who waits did not take the office")


@WAITING.keep("no-gap-before-the-wait")
async def _no_gap(play: Play) -> None:
    leader, waiter = await play.enter(2)
    ways_out: dict[str, Callable[[], Awaitable[None]]] = {
        "released": partial(leader.leaves, 1),
        "lapsed": play.lapse,
        "deleted": partial(play.rig.delete_record, play.election),
    }
    for serial, (way, leave) in enumerate(ways_out.items(), start=1):
        await leader.wins(serial)
        wait = await waiter.waits(serial)
        await leave()
        async with play.standby(waiter, wait) as standby:
            await play.soon(standby.won, f"the office was {way} before the wait began, and the wait did not end")
        await waiter.leaves(serial)


@WAITING.keep("waits-without-spinning")
async def _no_spinning(play: Play) -> None:
    leader, waiter = await play.enter(2)
    await leader.wins()
    async with play.standby(waiter, await waiter.waits()) as standby:
        await play.rig.pass_time(play.ttl_ns // 2)
        wake_count = standby.wake_count
    expect(wake_count <= _IDLE_WAKES_MAX, f"nothing changed in half a ttl, but the wait ended {wake_count} times")


@WAITING.keep("queue-order")
async def _queue_order(play: Play) -> None:
    leader, first, second = await play.enter(3)
    await leader.wins()
    await first.waits()
    await second.waits()
    await leader.leaves()
    if play.traits.queue:
        await second.waits()
        await first.wins()
    else:  # No place is kept for anybody, so whoever asks gets it and a slow waiter costs no time.
        await second.wins()
        await first.waits()


@WAITING.keep("withdrawal-lets-the-next-one-pass")
async def _withdrawal(play: Play) -> None:
    leader, first, second = await play.enter(3)
    await leader.wins()
    await first.waits()
    async with play.standby(second, await second.waits()) as standby:
        await first.leaves()
        await leader.leaves()
        await play.soon(standby.won, "a bid that was withdrawn from the queue still blocks the next one")
    await first.waits(2)
    async with play.standby(leader, await leader.waits(2)) as standby:
        await second.leaves()
        await first.leaves(2)  # Withdrawn when it was its turn.
        await play.soon(standby.won, "a bid that was withdrawn in its turn still blocks the next one")


@WAITING.keep("dead-waiter-blocks-nobody")
async def _dead_waiter(play: Play) -> None:
    leader, living = await play.enter(2)
    await leader.wins()
    async with play.rig.open() as store:
        await Candidate(store, play.election, play.ttl_ns).waits()
    async with play.standby(living, await living.waits()) as standby:
        await leader.leaves()
        await play.within(play.ttl_ns * 3 // 2, standby.won, "one who waited and died blocks the next one for ever")


@WAITING.keep("waiter-that-dies-awake-blocks-nobody")
async def _dies_awake(play: Play) -> None:
    leader, living = await play.enter(2)
    claimed, watch = anyio.Event(), anyio.Event()

    async def die_when_woken() -> None:
        async with play.rig.open() as store:
            wait = await Candidate(store, play.election, play.ttl_ns).waits()
            claimed.set()
            await watch.wait()
            await store.changed(wait)

    await leader.wins()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(die_when_woken)
        await claimed.wait()
        # The living one watches first and so may look first, when the other still seems to be there.
        async with play.standby(living, await living.waits()) as standby:
            watch.set()
            await play.a_moment()
            await leader.leaves()
            await play.within(
                play.ttl_ns * 3 // 2, standby.won, "one who was woken and died blocks the next one for ever"
            )
        tasks.cancel_scope.cancel()


@WAITING.keep("everyone-gets-a-turn")
async def _everyone(play: Play) -> None:
    leader, *crowd = await play.enter(6)
    tokens: list[int] = []
    served: list[Candidate] = []
    in_office: set[Candidate] = set()

    async def serve(candidate: Candidate, wait: Wait) -> None:
        grant = await Standby().stand_by(candidate, wait)
        expect(not in_office, "two were in office at once")
        in_office.add(candidate)
        tokens.append(grant.token)
        served.append(candidate)
        await checkpoint()
        in_office.remove(candidate)
        await candidate.leaves()

    await leader.wins()
    async with anyio.create_task_group() as tasks:
        for candidate in crowd:
            tasks.start_soon(serve, candidate, await candidate.waits())
        await play.a_moment()
        await leader.leaves()
        limit_ns = len(crowd) * play.ttl_ns
        await play.within(limit_ns, lambda: len(served) == len(crowd), "not everyone who waits came to a turn")
    expect(tokens == sorted(set(tokens)), f"the office was handed on under the tokens {tokens}")
    order = [crowd.index(candidate) for candidate in served]
    expect(order == sorted(order) or not play.traits.queue, f"the queue was served in the order {order}")


@WAITING.keep("cancelled-claim-leaves-nothing")
async def _cancelled_claim(play: Play) -> None:
    leader, rival = await play.enter(2)
    for serial, turn_count in enumerate(CANCELLED_AFTER, start=1):
        await cancelled(partial(leader.store.claim, leader.bid(serial)), turn_count)
        await leader.leaves(serial)
        await rival.wins(serial)
        await rival.leaves(serial)


@WAITING.keep("cancelled-renewal-leaves-nothing")
async def _cancelled_renewal(play: Play) -> None:
    (leader,) = await play.enter(1)
    grant = await leader.wins()
    for turn_count in CANCELLED_AFTER:
        await cancelled(partial(leader.store.renew, grant), turn_count)
        await leader.keeps(grant)


@WAITING.keep("cancelled-release-leaves-nothing")
async def _cancelled_release(play: Play) -> None:
    leader, rival = await play.enter(2)
    for serial, turn_count in enumerate(CANCELLED_AFTER, start=1):
        await leader.wins(serial)
        await cancelled(partial(leader.store.release, leader.bid(serial)), turn_count)
        await leader.leaves(serial)
        await rival.wins(serial)
        await rival.leaves(serial)


@WAITING.keep("cancelled-read-leaves-nothing")
async def _cancelled_read(play: Play) -> None:
    leader, reader = await play.enter(2)
    grant = await leader.wins()
    for turn_count in CANCELLED_AFTER:
        await cancelled(partial(reader.store.read, play.election), turn_count)
        await reader.sees(grant)


@WAITING.keep("cancelled-watch-leaves-nothing")
async def _cancelled_watch(play: Play) -> None:
    leader, waiter, other = await play.enter(3)
    for round_, turn_count in enumerate(CANCELLED_AFTER):
        serial = 2 * round_ + 1
        await leader.wins(serial)
        wait = await waiter.waits(serial)
        await cancelled(partial(waiter.store.changed, wait), turn_count)
        async with play.standby(waiter, wait) as standby:
            await leader.leaves(serial)
            await play.soon(standby.won, "after a watch was cancelled, the same one waits in vain")
        wait = await leader.waits(serial + 1)
        other_wait = await other.waits(serial)
        await cancelled(partial(leader.store.changed, wait), turn_count)
        await leader.leaves(serial + 1)
        async with play.standby(other, other_wait) as standby:
            await waiter.leaves(serial)
            await play.soon(standby.won, "after a watch was cancelled and its bid withdrawn, another waits in vain")
        await other.leaves(serial)


async def cancelled(call: Callable[[], Awaitable[object]], turn_count: int) -> None:
    """Begin ``call`` and cancel it after so many turns of the event loop."""

    async def run() -> None:
        await call()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        for _ in range(turn_count):
            await checkpoint()
        tasks.cancel_scope.cancel()

"""The part of the store contract that concerns what is told of an office: who has it, and where that one can be reached."""

from dataclasses import replace

from tenure.model import Ended, Grant
from tenure.stores.base import CanProclaim
from tenure.testing.rig import Play, Promises, expect

FINDING = Promises()


@FINDING.keep("read-tells-the-incumbent")
async def _read(play: Play) -> None:
    leader, reader = await play.enter(2)
    await reader.sees(None)
    first = await leader.wins()
    await reader.sees(first)
    await leader.leaves()
    await reader.sees(None)
    second = await leader.wins(2)
    await reader.sees(second)
    await play.lapse()
    await reader.sees(None)


@FINDING.keep("the-incumbent-can-be-found")
async def _found(play: Play) -> None:
    leader, other = await play.enter(2)
    leader.advertise = "http://10.0.0.5:8080/?a=1&b=ä"
    grant = await leader.wins()
    for _ in range(2):
        await other.sees(Grant(leader.bid(), grant.token))
        wait = await other.waits()
        told = wait.incumbent.advertised if wait.incumbent is not None else ""
        expect(told == leader.advertise, f"who must wait is told {told!r} of one that advertised {leader.advertise!r}")
        await leader.keeps(grant)
    await leader.leaves()
    await leader.sees(await other.wins())  # It does not say where it is: not where the last one was.


@FINDING.keep("the-incumbent-can-say-anew-where-it-is")
async def _proclaims(play: Play) -> None:
    leader, other = await play.enter(2)
    grant = await leader.wins()
    store = leader.store
    if not isinstance(store, CanProclaim):
        return  # It promises nothing of the kind.
    said = await store.proclaim(grant, "http://10.0.0.6:8080")
    expect(said == grant, f"a leader said where it is, and got {said}")
    await other.sees(replace(grant, bid=replace(grant.bid, advertise="http://10.0.0.6:8080")))
    await leader.keeps(grant)
    await leader.leaves()
    said = await store.proclaim(grant, "http://10.0.0.7:8080")
    expect(said == Ended(grant.bid, grant.token), f"one who has left said where it is, and got {said}")
    await leader.sees(await other.wins())

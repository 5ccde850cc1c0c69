"""The contract of every store: promises of ``stores/base``, each with a check that can fail.

``check_store(make)`` checks them all, in order; ``CONTRACT`` has them by name, for a test per promise. There are no
skips and no exceptions by name of a store. Traits are asked only where they name what is promised: whether bids take
office in order, how long a dead holder may linger, which ttl is taken. Where a lease must have ended for somebody, that
one saw it begin: an engine may leave it to its observers to count (``Expiry.OBSERVER``).

This file holds what concerns the office: who has it, under which token, until when. ``finding_contract`` holds what is told
of it, ``group_contract`` what concerns those who renew together, and ``waiting_contract`` those who have not got it;
``document_contract`` is about what needs no office.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace

import anyio

from tenure.errors import Refused, StoreError
from tenure.model import Ended, Grant
from tenure.stores.base import CanRenewTogether
from tenure.testing.document_contract import DOCUMENTS
from tenure.testing.finding_contract import FINDING
from tenure.testing.group_contract import GROUPS
from tenure.testing.rig import Candidate, Play, Promises, Rig, expect
from tenure.testing.waiting_contract import WAITING

Make = Callable[[], AbstractAsyncContextManager[Rig]]

OFFICE = Promises()


async def check_store(make: Make) -> None:
    """Check every promise of the contract, each on a rig of its own from ``make``.

    Raises ContractBroken for the first promise that is not kept. Proves nothing about faults that the rig cannot make:
    a lost answer, a partition, a failover of the engine.
    """
    for name in CONTRACT:
        await check_promise(name, make)


async def check_promise(name: str, make: Make) -> None:
    """Check one promise of ``CONTRACT``. Raises ContractBroken if it is not kept."""
    async with make() as rig:
        await CONTRACT[name](rig)


@OFFICE.keep("exclusive")
async def _exclusive(play: Play) -> None:
    leader, rival = await play.enter(2)
    grant = await leader.wins()
    wait = await rival.waits()
    expect(wait.incumbent is not None and wait.incumbent.token == grant.token, f"{wait} names another than {grant}")
    await rival.waits()
    await leader.keeps(grant)
    await leader.leaves()
    await rival.wins()
    await leader.waits(2)


@OFFICE.keep("ttl-outside-the-traits-is-refused")
async def _refused(play: Play) -> None:
    asking, other = await play.enter(2)
    for ttl_ns in (play.traits.ttl_min_ns - 1, play.traits.ttl_max_ns + 1):
        try:
            answer = await asking.store.claim(replace(asking.bid(), ttl_ns=ttl_ns))
        except Refused:
            continue
        expect(False, f"a ttl of {ttl_ns} ns got {answer} from a store whose traits are {play.traits}")
    await other.wins()


@OFFICE.keep("claim-is-idempotent")
async def _idempotent(play: Play) -> None:
    (leader,) = await play.enter(1)
    grant = await leader.wins()
    again = await leader.wins()
    expect(again == grant, f"a repeated claim got {again} after {grant}")
    await leader.keeps(grant)
    await leader.sees(grant)


@OFFICE.keep("repeated-claim-counts-a-full-ttl")
async def _claim_counts_anew(play: Play) -> None:
    leader, rival = await play.enter(2)
    grant = await leader.wins()
    for _ in range(_rounds_past_a_lapse(play)):
        await play.most_of_a_ttl()
        again = await leader.wins()
        expect(again == grant, f"a repeated claim in good time got {again} after {grant}")
    await play.most_of_a_ttl()
    await rival.waits()
    await leader.keeps(grant)


@OFFICE.keep("renewal-counts-a-full-ttl")
async def _renewal_counts_anew(play: Play) -> None:
    leader, rival = await play.enter(2)
    grant = await leader.wins()
    for _ in range(_rounds_past_a_lapse(play)):
        await play.most_of_a_ttl()
        await leader.keeps(grant)
    await play.most_of_a_ttl()
    await rival.waits()
    await leader.keeps(grant)


@OFFICE.keep("renewing-together-is-renewing-each")
async def _together(play: Play) -> None:
    (leader,) = await play.enter(1)
    store = leader.store
    if not isinstance(store, CanRenewTogether):
        return  # It promises nothing of the kind.
    crowd = [Candidate(store, f"{play.election}/{number}", play.ttl_ns) for number in range(4)]
    grants = [await candidate.wins() for candidate in crowd]
    for _ in range(_rounds_past_a_lapse(play)):
        await play.most_of_a_ttl()
        got = await store.renew_together(grants)
        expect(got == grants, f"tenures that last were renewed together, and got {got}")
    await crowd[1].leaves()
    got = await store.renew_together(grants)
    answers = [grants[0], Ended(grants[1].bid, grants[1].token), *grants[2:]]
    expect(got == answers, f"tenures of which the second has ended were renewed together, and got {got}")
    await crowd[1].sees(None)


def _rounds_past_a_lapse(play: Play) -> int:
    """Return how often two thirds of a ttl must pass until an office would be gone that nothing had prolonged."""
    return 1 + (play.ttl_ns + play.slack_ns) * 3 // (play.ttl_ns * 2)


@OFFICE.keep("office-lasts-its-ttl-and-no-longer")
async def _expires(play: Play) -> None:
    leader, rival = await play.enter(2)
    await leader.wins()
    await rival.waits()  # Where observers count a lease, this one begins to.
    await play.most_of_a_ttl()
    await rival.waits()
    await play.rig.pass_time(play.ttl_ns - play.ttl_ns * 2 // 3 + play.slack_ns)
    await rival.wins()


@OFFICE.keep("tokens-rise-through-release")
async def _rise_through_release(play: Play) -> None:
    leader, other = await play.enter(2)
    grants = [await leader.wins()]
    await leader.leaves()
    grants.append(await leader.wins(2))
    await leader.leaves(2)
    grants.append(await other.wins())
    _rise(*grants)


@OFFICE.keep("tokens-rise-through-expiry")
async def _rise_through_expiry(play: Play) -> None:
    leader, other = await play.enter(2)
    grants = [await leader.wins()]
    await play.lapse()
    grants.append(await leader.wins())  # The same bid: what it got has ended, so this is a tenure of its own.
    await other.waits()
    await play.lapse()
    grants.append(await other.wins())
    _rise(*grants)


@OFFICE.keep("tokens-rise-through-deletion")
async def _rise_through_deletion(play: Play) -> None:
    leader, other = await play.enter(2)
    grants = [await leader.wins()]
    await play.rig.delete_record(play.election)
    await leader.lost(grants[0])
    grants.append(await other.wins())
    await other.leaves()
    await play.rig.delete_record(play.election)
    grants.append(await leader.wins(2))
    _rise(*grants)


@OFFICE.keep("tokens-rise-through-restart")
async def _rise_through_restart(play: Play) -> None:
    leader, early = await play.enter(2)
    grants = [await leader.wins()]
    await leader.leaves()
    await play.rig.restart()
    (late,) = await play.enter(1)
    grants.append(await late.wins())
    await late.leaves()
    grants.append(await _wins_in_time(play, early))
    await play.rig.restart()
    (late,) = await play.enter(1)
    grants.append(await _wins_in_time(play, late))  # After the restart, nobody prolongs the old lease.
    _rise(*grants)


async def _wins_in_time(play: Play, candidate: Candidate) -> Grant:
    """Claim until it is granted: a connection may first have to learn that it broke, and a restart may prolong leases."""
    for _ in range(4):
        with suppress(StoreError):
            answer = await candidate.store.claim(candidate.bid())
            if isinstance(answer, Grant):
                return answer
        await play.lapse()
    return await candidate.wins()


def _rise(*grants: Grant) -> None:
    tokens = [grant.token for grant in grants]
    expect(all(tokens[i] < tokens[i + 1] for i in range(len(tokens) - 1)), f"tokens came as {tokens}")
    expect(tokens[0] >= 1, f"the first token is {tokens[0]}, which a sink would take for none")


@OFFICE.keep("larger-serial-supersedes")
async def _supersedes(play: Play) -> None:
    leader, rival = await play.enter(2)
    first = await leader.wins(1)
    second = await leader.wins(2)
    _rise(first, second)
    await leader.lost(first)
    await leader.keeps(second)
    await rival.sees(second)


@OFFICE.keep("no-revival")
async def _no_revival(play: Play) -> None:
    leader, rival = await play.enter(2)
    lapsed = await leader.wins()
    await play.lapse()
    await leader.lost(lapsed)  # Although nobody else has claimed: an office that was free has been anybody's.
    await leader.sees(None)
    released = await leader.wins(2)
    await leader.leaves(2)
    await leader.lost(released)
    await rival.wins()


@OFFICE.keep("stale-renewal-is-harmless")
async def _stale_renewal(play: Play) -> None:
    leader, successor = await play.enter(2)
    stale = await leader.wins()
    await play.lapse()
    own = await leader.wins()  # The same bid again: only the token tells its two tenures apart.
    await leader.lost(stale)
    await leader.keeps(own)
    await successor.waits()
    await play.lapse()
    grant = await successor.wins()
    await play.most_of_a_ttl()
    await leader.lost(stale)
    await leader.lost(own)
    await successor.sees(grant)
    await successor.keeps(grant)


@OFFICE.keep("stale-release-is-harmless")
async def _stale_release(play: Play) -> None:
    leader, successor, rival = await play.enter(3)
    await leader.wins()
    await successor.waits()
    await play.lapse()
    grant = await successor.wins()
    await leader.leaves()
    await leader.leaves(7)  # A bid that never was.
    await rival.leaves()
    await successor.sees(grant)
    await rival.waits()
    await successor.keeps(grant)


@OFFICE.keep("late-repeat-is-harmless")
async def _late_repeat(play: Play) -> None:
    leader, rival = await play.enter(2)
    await leader.wins(1)
    grant = await leader.wins(2)
    await leader.waits(1)
    await leader.keeps(grant)
    await leader.leaves(1)
    await leader.keeps(grant)
    await rival.sees(grant)
    # The same among those who wait: what its holder gave up must not push the newer bid out.
    for serial in (1, 2, 1):
        await rival.waits(serial)
    await rival.leaves(1)
    await leader.leaves(2)
    await rival.wins(2)


@OFFICE.keep("elections-are-independent")
async def _independent(play: Play) -> None:
    leader, rival = await play.enter(2)
    # One holder on one connection, and a name that begins like the first: neither may make one election of two.
    other = Candidate(leader.store, f"{play.election}/other", play.ttl_ns)
    other.holder = leader.holder
    first, second = await leader.wins(2), await other.wins(1)
    await leader.keeps(first)
    await other.keeps(second)
    await play.rig.delete_record(other.election)
    await leader.keeps(first)
    third = await other.wins(3)
    await leader.leaves(2)
    await other.keeps(third)
    await leader.sees(await rival.wins())


@OFFICE.keep("one-winner-of-fifty")
async def _one_winner(play: Play) -> None:
    # Five on each of ten connections: races between connections, and between the calls on one.
    crowd = [Candidate(one.store, play.election, play.ttl_ns) for one in await play.enter(10) for _ in range(5)]
    grants: list[Grant] = []

    async def claim(candidate: Candidate) -> None:
        answer = await candidate.store.claim(candidate.bid())
        if isinstance(answer, Grant):
            grants.append(answer)

    async with anyio.create_task_group() as tasks:
        for candidate in crowd:
            tasks.start_soon(claim, candidate)
    expect(len(grants) == 1, f"{len(crowd)} claimed at once, and {len(grants)} of them were granted")
    await crowd[0].sees(grants[0])


# What is told of the office comes second: nearly every other check asks for it.
CONTRACT = Promises({"exclusive": OFFICE["exclusive"], **FINDING, **OFFICE, **GROUPS, **WAITING, **DOCUMENTS})
"""Every promise by name, in the order in which ``check_store`` checks them."""

RESTARTING = frozenset({"tokens-rise-through-restart", "documents-survive-restart"})
"""The promises whose checks restart the engine: on one that is shared by several checks, they come last and alone."""

"""The part of the contract that concerns groups: tenures that are renewed together, again and again (``stores/base``).

Checked for every store that can renew together, whether it keeps the list itself or has it kept for it. A leader in a group
is told of nothing but its end, so a group that forgets to say so has a leader that goes on for ever.
"""

from typing import Final

from tenure.model import Ended
from tenure.stores.base import CanRenewTogether, Group
from tenure.stores.groups import group_of
from tenure.testing.rig import Candidate, Play, Promises, expect
from tenure.testing.waiting_contract import CANCELLED_AFTER, cancelled

GROUPS = Promises()
_WITHIN_NS: Final = 60 * 10**9  # Nobody here looks at the time while a group is renewed.


async def _crowd(play: Play, count: int) -> tuple[Group | None, list[Candidate]]:
    """Return a group, and candidates of as many elections on one store; None: it promises nothing of the kind."""
    (leader,) = await play.enter(1)
    store = leader.store
    group = group_of(store, _WITHIN_NS) if isinstance(store, CanRenewTogether) else None
    return group, [Candidate(store, f"{play.election}/{number}", play.ttl_ns) for number in range(count)]


@GROUPS.keep("group-is-renewed-and-nobody-else")
async def _renewed(play: Play) -> None:
    group, crowd = await _crowd(play, 4)
    if group is None:
        return
    grants = [await candidate.wins() for candidate in crowd]
    for grant in grants:
        group.add(grant)
    group.discard(grants[3])
    group.discard(grants[3])  # Once more changes nothing.
    # Until an office would be gone that nothing had prolonged.
    for _ in range(1 + (play.ttl_ns + play.slack_ns) * 3 // (play.ttl_ns * 2)):
        await play.most_of_a_ttl()
        ended = (await group.renew()).ended
        expect(not ended, f"tenures that last were renewed as a group, which named {ended} as ended")
    for candidate, grant in zip(crowd[:3], grants[:3], strict=True):
        await candidate.sees(grant)
    await crowd[3].sees(None)


@GROUPS.keep("group-names-who-has-ended-every-time")
async def _named(play: Play) -> None:
    group, crowd = await _crowd(play, 3)
    if group is None:
        return
    stays, ended, never = [await candidate.wins() for candidate in crowd]
    group.add(stays)
    group.add(ended)
    expect(not (await group.renew()).ended, "two tenures last, and one was named as ended")
    await crowd[1].leaves()
    await crowd[2].leaves()
    group.add(never)
    gone = {ended.bid, never.bid}
    for when in ("just", "before the last renewal"):
        got = (await group.renew()).ended
        expect(got == gone, f"two of three tenures had ended {when}, and {set(got)} were named")
    again = await crowd[1].wins(2)
    got = (await group.renew()).ended
    expect(got == gone, f"a tenure that had ended was named no more once its holder had won again: {set(got)}")
    await crowd[1].keeps(again)
    group.discard(ended)
    group.discard(never)
    group.add(again)
    got = (await group.renew()).ended
    expect(not got, f"those who had ended were taken out, and {set(got)} were named")
    answer = await crowd[1].store.renew(ended)
    expect(answer == Ended(ended.bid, ended.token), f"a tenure that had ended was revived by its group: {answer}")


@GROUPS.keep("group-tells-tenures-of-one-office-apart")
async def _apart(play: Play) -> None:
    """Two candidates of a process may hold an office one after the other, and be renewed by one request."""
    group, (first,) = await _crowd(play, 1)
    if group is None:
        return
    store = first.store
    assert isinstance(store, CanRenewTogether), "it has a group"
    rival = Candidate(store, first.election, play.ttl_ns)
    ended = await first.wins()
    await first.leaves()
    lasts = await rival.wins()
    for grants in ([ended, lasts], [lasts, ended]):
        got = await store.renew_together(grants)
        answers = [Ended(grant.bid, grant.token) if grant == ended else grant for grant in grants]
        expect(got == answers, f"of two tenures of one office the second lasts, and {grants} got {got}")
        for grant in grants:
            group.add(grant)
        named = (await group.renew()).ended
        expect(named == {ended.bid}, f"of two tenures of one office the second lasts, and {set(named)} were named")
        for grant in grants:
            group.discard(grant)
    await rival.keeps(lasts)


@GROUPS.keep("cancelled-group-renewal-leaves-nothing")
async def _cancelled_renewal(play: Play) -> None:
    group, crowd = await _crowd(play, 2)
    if group is None:
        return
    stays, ended = [await candidate.wins() for candidate in crowd]
    group.add(stays)
    for turn_count in CANCELLED_AFTER:
        await cancelled(group.renew, turn_count)
        got = (await group.renew()).ended
        expect(not got, f"a renewal was cancelled, and the next one named {set(got)}")
    group.add(ended)
    await crowd[1].leaves()
    for turn_count in CANCELLED_AFTER:
        await cancelled(group.renew, turn_count)
        got = (await group.renew()).ended
        expect(
            got == {ended.bid}, f"a renewal was cancelled after one of two had ended, and the next one named {set(got)}"
        )
    await crowd[0].sees(stays)

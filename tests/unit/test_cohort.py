"""A member of a cohort is where it would be if it had taken each step itself; and nobody reads what is not its own."""

from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from tenure.core import effects as do
from tenure.core import events as on
from tenure.core.candidate import Candidate
from tenure.core.cohort import Cohort
from tenure.core.held import Held
from tenure.core.table import LEADING, STOPPING
from tenure.errors import ClockError, Reason
from tenure.model import Bid, Grant, Holder, Token
from tenure.timing import Timing

S = 10**9
TIMING = Timing.of(ttl=8)
HOLDER = Holder("host", 1, "nonce")


def bid(number: int) -> Bid:
    return Bid(f"election/{number}", HOLDER, 0, TIMING.ttl_ns)


@dataclass(eq=False)
class Member:
    """A candidate that leads since 1.1 s, with a validity from 1 s."""

    number: int
    candidate: Candidate = field(init=False)

    def __post_init__(self) -> None:
        self.candidate = Candidate(bid(self.number), TIMING)
        (claim,) = self.candidate.step(on.Stand(), 1 * S)
        assert isinstance(claim, do.Claim)
        grant = Grant(claim.bid, Token(self.number))
        self.candidate.step(on.Granted(claim.attempt, grant), S + S // 20)
        self.candidate.step(on.Sealed(grant.token), S + S // 10)
        assert self.candidate.state is LEADING

    @property
    def grant(self) -> Grant:
        assert self.candidate.held is not None
        return self.candidate.held.grant

    def asks(self, now: int) -> do.Renew:
        (effect,) = self.candidate.step(on.Tick(), now)
        assert isinstance(effect, do.Renew)
        return effect


def cohort_of(*members: Member, now: int = 2 * S, heard_at: int = 2 * S + 1) -> Cohort[Member]:
    """Return the cohort of members who were renewed by a round at ``now``."""
    cohort: Cohort[Member] = Cohort(TIMING)
    assert cohort.begin(now) == []
    for member in members:
        cohort.ask(member.asks(now), member)
    for effect, member in cohort.answered(heard_at, frozenset()):
        member.candidate.step(on.Granted(effect.attempt, effect.grant), heard_at)
        assert cohort.admit(member)
    assert [member.candidate.wake_at for member in members] == [None] * len(members)
    return cohort


def looks(candidate: Candidate) -> dict[str, Any]:
    """Return all that a machine is, but for how many attempts it has made."""
    asking = candidate._asking
    return {
        "state": candidate.state,
        "wake_at": candidate.wake_at,
        "held": (candidate.token, candidate.valid_until, candidate.held and candidate.held.margin_ns),
        "now": candidate._now,
        "deadline": candidate._deadline,
        "asking": (asking.due_at, asking.failures, asking._unheard, [sent_at for _, sent_at in asking.sent]),
    }


@pytest.mark.parametrize("seed", range(200))
def test_who_leaves_is_where_it_would_be_if_it_had_taken_each_step_itself(seed: int) -> None:
    chance = Random(seed)
    alone, together, other = Member(1), Member(1), Member(2)
    cohort = cohort_of(together, other)
    effect = alone.asks(2 * S)
    alone.candidate.step(on.Granted(effect.attempt, effect.grant), 2 * S + 1)
    now = 2 * S + 1
    for _ in range(chance.randrange(5)):
        now = max(now, cohort.due_at) + chance.randrange(S // 4)
        assert cohort.begin(now) == []
        effect = alone.asks(now)
        now += chance.randrange(S // 2)
        assert cohort.answered(now, frozenset()) == []
        alone.candidate.step(on.Granted(effect.attempt, effect.grant), now)
    attempt = 0
    if chance.random() < 0.5:
        now = max(now, cohort.due_at) + chance.randrange(S // 4)
        assert cohort.begin(now) == []
        attempt = alone.asks(now).attempt
        now += chance.randrange(S // 4)
    together.candidate.leave()
    assert looks(together.candidate) == looks(alone.candidate)
    token = Token(1)
    event = chance.choice((on.Resign(), on.GiveUp(Reason.STALLED), on.Deposed(token), on.BodyEnded(token), on.Tick()))
    now += chance.choice((0, S // 10, 20 * S))
    effects = [machine.step(event, now) for machine in (alone.candidate, together.candidate)]
    assert [type(one) for one in effects[0]] == [type(one) for one in effects[1]]
    assert looks(together.candidate) == looks(alone.candidate)
    if attempt:  # The round is answered after all, or fails.
        ((asked, who),) = cohort.apart
        assert who is together
        failed = chance.random() < 0.5
        for member, number in ((alone, attempt), (together, asked.attempt)):
            answer = on.Failed(number, definite=False) if failed else on.Granted(number, asked.grant)
            member.candidate.step(answer, now + 1)
        assert looks(together.candidate) == looks(alone.candidate)


@pytest.mark.parametrize(
    "event", [on.Resign(), on.GiveUp(Reason.RESIGNED), on.Deposed(Token(1)), on.BodyEnded(Token(1))]
)
def test_who_has_left_is_never_prolonged_again(event: on.Event) -> None:
    left, stays = Member(1), Member(2)
    cohort = cohort_of(left, stays)
    held, before = left.candidate.held, cohort.valid_until
    assert held is not None
    left.candidate.step(event, 3 * S)
    assert cohort.gone() == [Grant(held.grant.bid, held.grant.token)]
    for now in (4 * S, 6 * S):
        assert cohort.begin(now) == []
        assert cohort.answered(now + 1, frozenset()) == []
    assert stays.candidate.valid_until == cohort.valid_until > before
    assert held.valid_until <= before
    assert not cohort.admit(left)


def test_validity_counts_from_when_the_round_began() -> None:
    member = Member(1)
    cohort = cohort_of(member)
    cohort.begin(4 * S)
    cohort.answered(5 * S, frozenset())
    assert member.candidate.valid_until == TIMING.valid_until(4 * S)
    assert cohort.due_at == TIMING.renew_at(4 * S)


def test_one_that_the_store_names_is_told_and_the_others_are_renewed() -> None:
    ended, stays = Member(1), Member(2)
    cohort = cohort_of(ended, stays)
    before = cohort.valid_until
    cohort.begin(4 * S)
    ((effect, who),) = cohort.answered(4 * S + 1, frozenset({ended.grant.bid, bid(99)}))
    assert (who, effect.grant) == (ended, ended.grant)
    assert ended.candidate.valid_until == before < cohort.valid_until == stays.candidate.valid_until


@pytest.mark.parametrize(
    "asked_at", [2 * S + TIMING.valid_for_ns - TIMING.grace_ns, 2 * S + TIMING.valid_for_ns, 100 * S]
)
def test_a_process_that_wakes_too_late_leaves_all_to_their_own_machines_which_stop(asked_at: int) -> None:
    members = [Member(1), Member(2)]
    cohort = cohort_of(*members)
    assert cohort.begin(asked_at) == members
    for member in members:
        stop, *_ = member.candidate.step(on.Tick(), asked_at)
        assert stop == do.StopBody(member.grant.token, Reason.LAPSED)
        assert member.candidate.valid_until == TIMING.valid_until(2 * S)


def test_an_answer_that_comes_after_the_deadline_revives_nobody() -> None:
    member = Member(1)
    cohort = cohort_of(member)
    cohort.begin(4 * S)
    ((effect, _),) = cohort.answered(60 * S, frozenset())
    assert member.candidate.valid_until == TIMING.valid_until(2 * S)
    member.candidate.step(on.Granted(effect.attempt, effect.grant), 60 * S)
    assert member.candidate.state is STOPPING
    assert not cohort.admit(member)


def test_an_answer_at_the_very_deadline_is_too_late() -> None:
    member = Member(1)
    cohort = cohort_of(member)
    cohort.begin(4 * S)
    stop_at = TIMING.valid_until(2 * S) - TIMING.grace_ns
    assert [one.member for one in cohort.answered(stop_at, frozenset())] == [member]
    assert member.candidate.valid_until == TIMING.valid_until(2 * S)


def test_those_who_cannot_wait_for_the_answer_are_asked_for_one_by_one() -> None:
    member = Member(1)
    cohort = cohort_of(member)
    close = 2 * S + TIMING.valid_for_ns - TIMING.grace_ns - cohort.patience_ns
    assert cohort.begin(close) == [member]
    cohort.ask(member.asks(close), member)
    assert len(cohort.apart) == 1


def test_a_late_round_is_left_to_the_members_who_asked_when_it_began_and_may_still_hear_its_answer() -> None:
    members = [Member(1), Member(2)]
    cohort = cohort_of(*members)
    cohort.begin(4 * S)
    assert [one.member for one in cohort.late()] == members
    assert not cohort.members
    for member in members:
        assert member.candidate.wake_at == 4 * S + TIMING.answer_within_ns(0, 0.5)
    for effect, member in cohort.answered(5 * S, frozenset()):
        member.candidate.step(on.Granted(effect.attempt, effect.grant), 5 * S)
        assert member.candidate.valid_until == TIMING.valid_until(4 * S)
        assert cohort.admit(member)


def test_a_round_that_fails_is_a_failure_of_each_so_that_a_lapse_is_the_stores() -> None:
    member = Member(1)
    cohort = cohort_of(member)
    cohort.begin(4 * S)
    ((effect, _),) = cohort.failed()
    member.candidate.step(on.Failed(effect.attempt, definite=True), 5 * S)
    effects = member.candidate.step(on.Tick(), 60 * S)
    assert do.StopBody(member.grant.token, Reason.STORE_GONE) in effects


def test_nobody_is_taken_in_who_differs() -> None:
    member, early = Member(1), Member(2)
    cohort = cohort_of(member)
    assert not cohort.admit(member)  # It is in.
    assert not cohort.admit(early)  # It was not renewed by this round.
    effect = early.asks(3 * S)
    early.candidate.step(on.Granted(effect.attempt, effect.grant), 3 * S + 1)
    assert early.candidate.wake_at == cohort.due_at
    assert not cohort.admit(early)  # It is due with them, but believes for longer.


def test_a_clock_that_goes_back_is_refused() -> None:
    cohort = cohort_of(Member(1))
    with pytest.raises(ClockError):
        cohort.begin(2 * S)


def test_a_member_whose_clock_goes_back_stays_where_it_is() -> None:
    member = Member(1)
    cohort = cohort_of(member)
    with pytest.raises(ClockError):
        member.candidate.step(on.Tick(), 2 * S)
    assert member.candidate.wake_at is None
    assert list(cohort.members.values()) == [member]


def test_each_has_the_least_margin_of_the_renewals_that_it_had() -> None:
    first, second = Member(1), Member(2)
    cohort = cohort_of(first)
    slow, quick = S // 2, S // 10
    for now, took, who in ((4 * S, slow, [second]), (6 * S, quick, []), (8 * S, quick // 2, [])):
        cohort.begin(now)
        for member in who:
            cohort.ask(member.asks(now), member)
        for effect, member in cohort.answered(now + took, frozenset()):
            member.candidate.step(on.Granted(effect.attempt, effect.grant), now + took)
            assert cohort.admit(member)
    assert first.candidate.held is not None
    assert second.candidate.held is not None
    assert first.candidate.held.margin_ns == TIMING.valid_until(2 * S) - 4 * S - slow
    assert second.candidate.held.margin_ns == TIMING.valid_until(1 * S) - 4 * S - slow
    newcomer = Held(Grant(bid(3), Token(3)), cohort.valid_until)
    assert newcomer.join(cohort)
    assert newcomer.margin_ns is None
    cohort.begin(10 * S)
    cohort.answered(10 * S + quick, frozenset())
    assert newcomer.margin_ns == TIMING.valid_until(8 * S) - 10 * S - quick


def test_what_is_kept_of_margins_is_bounded_and_errs_to_the_small_side() -> None:
    cohort = cohort_of(Member(1))
    for number in range(300):  # Each is a little quicker than the one before it.
        now = cohort.due_at
        cohort.begin(now)
        cohort.answered(now + 10**6 - number, frozenset())
    assert len(cohort._margins) == 64
    kept = [least for _, least in cohort._margins]
    assert kept == sorted(kept)
    assert all(earlier < later for (earlier, _), (later, _) in pairwise(cohort._margins))
    assert cohort.least_margin_ns(0) == kept[0] == min(kept)


def test_in_the_child_of_a_fork_nothing_is_held() -> None:
    member = Member(1)
    cohort_of(member)
    assert member.candidate.held is not None
    member.candidate.held.forget()
    assert member.candidate.held.valid_until == 0

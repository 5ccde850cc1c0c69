"""The model engine against a model of its own, over any order of claims, renewals, releases, deletions and time.

The contract tries what is known to go wrong; this tries what nobody thought of. The oracle here is one line per
election: who holds the office, until when, and the last token. It knows nothing of the engine's records.
"""

from dataclasses import dataclass

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tenure.model import Bid, Ended, Grant, Holder, Incumbent, Token, Wait
from tenure.stores.memory import MemoryEngine, _Record

ELECTIONS = ("billing", "billing/close")
HOLDERS = tuple(Holder("host", 1, nonce) for nonce in "abc")
TTL_NS = 10


@dataclass
class Office:
    """What must be true of one election."""

    grant: Grant | None = None
    until: int = 0
    last_token: int = 0


class EngineMachine(RuleBasedStateMachine):
    bids = Bundle("bids")
    answers = Bundle("answers")
    kind: type[MemoryEngine] = MemoryEngine

    def __init__(self) -> None:
        super().__init__()
        self.engine = self.kind()
        self.now = 0
        self.made: list[Bid] = []
        self.offices = {election: Office() for election in ELECTIONS}
        self.told: list[str] = []

    def held(self, election: str) -> Grant | None:
        office = self.offices[election]
        return office.grant if self.now < office.until else None

    @initialize(queue=st.booleans())
    def begin(self, queue: bool) -> None:
        self.engine = self.kind(queue=queue)
        for election in ELECTIONS:
            self.engine.listen(election, lambda election=election: self.told.append(election))  # type: ignore[misc]

    @rule(target=bids, election=st.sampled_from(ELECTIONS), holder=st.sampled_from(HOLDERS), ttl=st.integers(5, TTL_NS))
    def make_bid(self, election: str, holder: Holder, ttl: int) -> Bid:
        self.made.append(Bid(election, holder, len(self.made) + 1, ttl))
        return self.made[-1]

    @rule(target=answers, bid=bids)
    def claim(self, bid: Bid) -> Grant | Wait:
        office, held = self.offices[bid.election], self.held(bid.election)
        answer = self.engine.claim(bid, self.now)
        assert answer.bid == bid
        own = held is not None and held.bid.holder == bid.holder
        if held is not None and own and held.bid == bid:
            assert answer == held
            office.until = self.now + bid.ttl_ns
        elif isinstance(answer, Wait):
            if held is not None and own and held.bid.serial < bid.serial:
                held = office.grant = None  # Ended at once, although somebody else was first in line.
            self._check_wait(answer, held)
        else:
            assert held is None or (own and held.bid.serial < bid.serial), "granted over the head of another"
            assert answer.token > office.last_token
            office.grant, office.until, office.last_token = answer, self.now + bid.ttl_ns, answer.token
        return answer

    def _check_wait(self, wait: Wait, held: Grant | None) -> None:
        assert held is not None or self.engine.queue, "told to wait for an office that is free"
        assert wait.incumbent == (held and Incumbent(held.bid.election, held.bid.holder, held.token))

    @rule(answer=answers)
    def renew(self, answer: Grant | Wait) -> None:
        grant = answer if isinstance(answer, Grant) else Grant(answer.bid, Token(1))
        office = self.offices[grant.bid.election]
        if self.held(grant.bid.election) == grant:
            assert self.engine.renew(grant, self.now) == grant
            office.until = self.now + grant.bid.ttl_ns
        else:
            assert self.engine.renew(grant, self.now) == Ended(grant.bid, grant.token)

    @rule(bid=bids)
    def release(self, bid: Bid) -> None:
        held = self.held(bid.election)
        self.told.clear()
        self.engine.release(bid, self.now)
        if held is not None and held.bid == bid:
            self.offices[bid.election].grant = None
            assert self.told == [bid.election]

    @rule(election=st.sampled_from(ELECTIONS))
    def delete(self, election: str) -> None:
        self.told.clear()
        self.engine.delete(election)
        self.offices[election].grant = None
        assert self.told == [election]

    @rule(bid=bids, change=st.sampled_from([-1, 1]))
    def watch(self, bid: Bid, change: int) -> None:
        self.engine.watching(bid, change, self.now)

    @rule(ns=st.integers(1, TTL_NS))
    def pass_time(self, ns: int) -> None:
        self.now += ns

    @rule(answer=answers)
    def claiming_helps_where_it_may(self, answer: Grant | Wait) -> None:
        wait = Wait(answer.bid, None)
        may_help = self.engine.may_help(wait, self.now)
        free = self.held(wait.bid.election) is None
        assert not may_help or free
        assert may_help or not free or self.engine.queue

    @invariant()
    def the_engine_and_the_model_agree_on_who_is_in_office(self) -> None:
        for election in ELECTIONS:
            held = self.held(election)
            assert self.engine.holding(election, self.now) == held
            assert self.engine.read(election, self.now) == (held and Incumbent(election, held.bid.holder, held.token))

    @invariant()
    def whoever_waits_is_woken_by_time_if_by_nothing_else(self) -> None:
        for election in ELECTIONS:
            expiry = self.engine.next_expiry(election, self.now)
            assert expiry is None or expiry > self.now
            if self.held(election) is not None:
                assert expiry == self.offices[election].until

    def teardown(self) -> None:
        """Whatever happened, after every lease has ended somebody gets the office."""
        self.now += 2 * TTL_NS
        for election in {bid.election for bid in self.made}:
            answers = [self.engine.claim(bid, self.now) for bid in self.made if bid.election == election]
            assert sum(isinstance(answer, Grant) for answer in answers) >= 1


class TwoWinners(MemoryEngine):
    def claim(self, bid: Bid, now: int) -> Grant | Wait:
        self.delete(bid.election)
        return super().claim(bid, now)


class CounterInTheRecord(MemoryEngine):
    def delete(self, election: str) -> None:
        super().delete(election)
        self._last_token = 0


class RenewComparesTheBid(MemoryEngine):
    def renew(self, grant: Grant, now: int) -> Grant | Ended:
        held = self.holding(grant.bid.election, now)
        return super().renew(held if held is not None and held.bid == grant.bid else grant, now)


class UnlockWithoutVersion(MemoryEngine):
    def release(self, bid: Bid, now: int) -> None:
        held = self.holding(bid.election, now)
        super().release(bid if held is None else held.bid, now)


class BlocksTheQueue(MemoryEngine):
    def _first_in_line(self, record: _Record, bid: Bid, now: int) -> bool:
        for place in record.queue:
            place.heard_at = now
        return super()._first_in_line(record, bid, now) and (not record.queue or record.queue[0].bid.serial != 2)


TestEngineInAnyOrderOfEvents = EngineMachine.TestCase
TestEngineInAnyOrderOfEvents.settings = settings(max_examples=150, stateful_step_count=40)


@pytest.mark.parametrize(
    "broken", [TwoWinners, CounterInTheRecord, RenewComparesTheBid, UnlockWithoutVersion, BlocksTheQueue]
)
def test_a_broken_engine_is_found_by_trying_any_order_of_events(broken: type[MemoryEngine]) -> None:
    class Machine(EngineMachine):
        kind = broken

    # The first failure will do: nobody reads it, so it need not be made small.
    quick = settings(
        max_examples=1000,
        stateful_step_count=40,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        print_blob=False,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Machine, settings=quick)

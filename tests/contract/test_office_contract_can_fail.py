"""Engines that break one promise about the office each: an oracle that nobody tried to fool is not an oracle."""

import pickle
from dataclasses import replace

import anyio
import pytest
import trio.testing
from anyio.lowlevel import checkpoint

from tenure.errors import Unreachable
from tenure.model import Bid, Ended, Grant, Incumbent, Token, Wait
from tenure.stores.memory import MemoryEngine, MemoryStore, _Record
from tenure.testing import ContractBroken, MemoryRig, check_store
from tenure.testing.finding_contract import FINDING
from tenure.testing.store_contract import OFFICE, Make


class TwoWinners(MemoryEngine):
    def claim(self, bid: Bid, now: int) -> Grant | Wait:
        held = self.holding(bid.election, now)
        if held is not None and held.bid.holder != bid.holder:
            self._records.pop(bid.election)
        return super().claim(bid, now)


class ReadsTheDead(MemoryEngine):
    def read(self, election: str, now: int) -> Incumbent | None:
        record = self._records.get(election)
        return super().read(election, 0 if record and record.grant else now)


class ForgetsTheAddress(MemoryEngine):
    def read(self, election: str, now: int) -> Incumbent | None:
        found = super().read(election, now)
        return found and replace(found, advertised="")


class ForgetsTheAddressOnRenewal(MemoryEngine):
    def renew(self, grant: Grant, now: int) -> Grant | Ended:
        answer = super().renew(grant, now)
        if isinstance(answer, Grant):
            self._records[grant.bid.election].grant = Grant(replace(grant.bid, advertise=""), grant.token)
        return answer


class KeepsWhatWasSaidFirst(MemoryEngine):
    def proclaim(self, grant: Grant, address: str, now: int) -> Grant | Ended:
        super().proclaim(grant, address, now)
        return super().proclaim(grant, grant.bid.advertise, now)


class LetsAnybodyProclaim(MemoryEngine):
    def proclaim(self, grant: Grant, address: str, now: int) -> Grant | Ended:
        super().proclaim(grant, address, now)
        return grant


class TellsThoseWhoWaitNothing(MemoryEngine):
    def claim(self, bid: Bid, now: int) -> Grant | Wait:
        answer = super().claim(bid, now)
        if isinstance(answer, Wait) and answer.incumbent is not None:
            return replace(answer, incumbent=replace(answer.incumbent, advertised=""))
        return answer


class KeepsTheLastAddress(MemoryEngine):
    last = ""

    def read(self, election: str, now: int) -> Incumbent | None:
        found = super().read(election, now)
        if found is not None:
            self.last = found.advertised or self.last
        return found and replace(found, advertised=self.last)


class TakesAnyTtl(MemoryStore):
    async def claim(self, bid: Bid) -> Grant | Wait:
        return self._engine.claim(bid, self._clock.now())


class NewTenureOnRepeat(MemoryEngine):
    def claim(self, bid: Bid, now: int) -> Grant | Wait:
        held = self.holding(bid.election, now)
        if held is not None and held.bid == bid:
            self._records[bid.election].grant = None
        return super().claim(bid, now)


class RepeatCountsNothing(MemoryEngine):
    def claim(self, bid: Bid, now: int) -> Grant | Wait:
        held = self.holding(bid.election, now)
        return held if held is not None and held.bid == bid else super().claim(bid, now)


class RenewalCountsNothing(MemoryEngine):
    def renew(self, grant: Grant, now: int) -> Grant | Ended:
        return grant if self.holding(grant.bid.election, now) == grant else super().renew(grant, now)


class RenewalCountsHalf(MemoryEngine):
    def renew(self, grant: Grant, now: int) -> Grant | Ended:
        answer = super().renew(grant, now)
        if isinstance(answer, Grant):
            self._records[grant.bid.election].expires_at = now + grant.bid.ttl_ns // 2
        return answer


class _RenewsTogether(MemoryStore):
    """An honest one; each below is not."""

    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        return [await self.renew(grant) for grant in grants]


class RenewsTheFirst(_RenewsTogether):
    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        return [*await super().renew_together(grants[:1]), *grants[1:]]


class AllOrNone(_RenewsTogether):
    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        answers = await super().renew_together(grants)
        return answers if answers == grants else [Ended(grant.bid, grant.token) for grant in grants]


class LosesTheOrder(_RenewsTogether):
    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        return (await super().renew_together(grants))[::-1]


class TheDeadLinger(MemoryEngine):
    def claim(self, bid: Bid, now: int) -> Grant | Wait:
        record = self._records.get(bid.election, _Record())
        lingers = now == record.expires_at and record.grant is not None and record.grant.bid.holder != bid.holder
        return Wait(bid, None) if lingers else super().claim(bid, now)


class ReleaseGivesTheTokenBack(MemoryEngine):
    def release(self, bid: Bid, now: int) -> None:
        held = self.holding(bid.election, now)
        self._last_token -= held is not None and held.bid == bid
        super().release(bid, now)


class ClaimRevives(MemoryEngine):
    def claim(self, bid: Bid, now: int) -> Grant | Wait:
        record = self._records.get(bid.election, _Record())
        if record.grant and record.grant.bid == bid:
            record.expires_at = now + bid.ttl_ns
        return super().claim(bid, now)


class CounterInTheRecord(MemoryEngine):
    def delete(self, election: str) -> None:
        super().delete(election)
        self._last_token = 0


class CounterInMemory(MemoryRig):
    async def restart(self) -> None:
        self.engine._last_token = 0


class EqualTokens(MemoryEngine):
    def claim(self, bid: Bid, now: int) -> Grant | Wait:
        held = self.holding(bid.election, now)
        if held is not None and held.bid.holder == bid.holder and held.bid.serial < bid.serial:
            self._records[bid.election].grant = Grant(bid, held.token)
        return super().claim(bid, now)


class RenewRevives(MemoryEngine):
    def renew(self, grant: Grant, now: int) -> Grant | Ended:
        record = self._records.get(grant.bid.election, _Record())
        if record.grant == grant:
            record.expires_at = now + grant.bid.ttl_ns
        return super().renew(grant, now)


class RenewComparesTheBid(MemoryEngine):
    def renew(self, grant: Grant, now: int) -> Grant | Ended:
        held = self.holding(grant.bid.election, now)
        return super().renew(held if held is not None and held.bid == grant.bid else grant, now)


class UnlockWithoutVersion(MemoryEngine):
    def release(self, bid: Bid, now: int) -> None:
        held = self.holding(bid.election, now)
        super().release(bid if held is None else held.bid, now)


class LastBidWins(MemoryEngine):
    def claim(self, bid: Bid, now: int) -> Grant | Wait:
        held = self.holding(bid.election, now)
        if held is not None and held.bid.holder == bid.holder and held.bid.serial > bid.serial:
            self._records[bid.election].grant = None
        return super().claim(bid, now)


class OneOfficePerHolder(MemoryEngine):
    def claim(self, bid: Bid, now: int) -> Grant | Wait:
        for election, record in self._records.items():
            if election != bid.election and record.grant and record.grant.bid.holder == bid.holder:
                record.grant = None
        return super().claim(bid, now)


class LooksThenLeaps(MemoryStore):
    async def claim(self, bid: Bid) -> Grant | Wait:
        was_free = self._engine.holding(bid.election, self._clock.now()) is None
        await checkpoint()
        if was_free:
            self._engine._records.pop(bid.election, None)
        return await super().claim(bid)


BROKEN: list[tuple[str, Make]] = [
    ("exclusive", MemoryRig.maker(TwoWinners)),
    ("read-tells-the-incumbent", MemoryRig.maker(ReadsTheDead)),
    ("the-incumbent-can-be-found", MemoryRig.maker(ForgetsTheAddress)),
    ("the-incumbent-can-be-found", MemoryRig.maker(ForgetsTheAddressOnRenewal)),
    ("the-incumbent-can-be-found", MemoryRig.maker(TellsThoseWhoWaitNothing)),
    ("the-incumbent-can-be-found", MemoryRig.maker(KeepsTheLastAddress)),
    ("the-incumbent-can-say-anew-where-it-is", MemoryRig.maker(KeepsWhatWasSaidFirst)),
    ("the-incumbent-can-say-anew-where-it-is", MemoryRig.maker(LetsAnybodyProclaim)),
    ("ttl-outside-the-traits-is-refused", MemoryRig.maker(store=TakesAnyTtl)),
    ("claim-is-idempotent", MemoryRig.maker(NewTenureOnRepeat)),
    ("repeated-claim-counts-a-full-ttl", MemoryRig.maker(RepeatCountsNothing)),
    ("renewal-counts-a-full-ttl", MemoryRig.maker(RenewalCountsNothing)),
    ("renewal-counts-a-full-ttl", MemoryRig.maker(RenewalCountsHalf)),
    ("renewing-together-is-renewing-each", MemoryRig.maker(store=RenewsTheFirst)),
    ("renewing-together-is-renewing-each", MemoryRig.maker(store=AllOrNone)),
    ("renewing-together-is-renewing-each", MemoryRig.maker(store=LosesTheOrder)),
    ("office-lasts-its-ttl-and-no-longer", MemoryRig.maker(TheDeadLinger)),
    ("tokens-rise-through-release", MemoryRig.maker(ReleaseGivesTheTokenBack)),
    ("tokens-rise-through-expiry", MemoryRig.maker(ClaimRevives)),
    ("tokens-rise-through-deletion", MemoryRig.maker(CounterInTheRecord)),
    ("tokens-rise-through-restart", CounterInMemory.maker()),
    ("larger-serial-supersedes", MemoryRig.maker(EqualTokens)),
    ("no-revival", MemoryRig.maker(RenewRevives)),
    ("stale-renewal-is-harmless", MemoryRig.maker(RenewComparesTheBid)),
    ("stale-release-is-harmless", MemoryRig.maker(UnlockWithoutVersion)),
    ("late-repeat-is-harmless", MemoryRig.maker(LastBidWins)),
    ("elections-are-independent", MemoryRig.maker(OneOfficePerHolder)),
    ("one-winner-of-fifty", MemoryRig.maker(store=LooksThenLeaps)),
]


def test_every_promise_about_the_office_can_fail() -> None:
    assert {promise for promise, _ in BROKEN} == {*OFFICE, *FINDING}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(("promise", "make"), BROKEN, ids=[promise for promise, _ in BROKEN])
def test_a_broken_store_is_told_which_promise_it_breaks(promise: str, make: Make, backend: str) -> None:
    with pytest.raises(ContractBroken) as caught:
        anyio.run(check_store, make, backend=backend)
    assert caught.value.promise == promise


def test_a_store_that_renews_together_honestly_keeps_the_contract() -> None:
    sizes: list[int] = []

    class Counting(_RenewsTogether):
        async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
            sizes.append(len(grants))
            return await super().renew_together(grants)

    anyio.run(check_store, MemoryRig.maker(store=Counting))
    assert max(sizes) > 1


class CutOff(MemoryStore):
    async def claim(self, bid: Bid) -> Grant | Wait:
        raise Unreachable("memory://", f"claim {bid.serial}")


def test_a_store_that_raises_breaks_the_promise_that_was_being_checked() -> None:
    with pytest.raises(ContractBroken, match="exclusive: raised Unreachable: memory://: claim 1 was not sent"):
        anyio.run(check_store, MemoryRig.maker(store=CutOff))


class Hangs(MemoryStore):
    async def renew(self, grant: Grant) -> Grant | Ended:
        await anyio.sleep_forever()
        return await super().renew(grant)


def test_a_call_that_never_comes_back_is_a_broken_promise_and_not_a_run_that_hangs() -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)
    with pytest.raises(ContractBroken, match="exclusive: a call did not come back"):
        anyio.run(check_store, MemoryRig.maker(store=Hangs), backend="trio", backend_options={"clock": clock})


def test_a_broken_contract_survives_pickling() -> None:
    broken = pickle.loads(pickle.dumps(ContractBroken("exclusive", "two")))  # noqa: S301  (our own bytes)
    assert (broken.promise, broken.detail, str(broken)) == ("exclusive", "two", "exclusive: two")


def test_an_error_that_says_nothing_of_the_promise_passes_through() -> None:
    class Bug(MemoryEngine):
        def _next_token(self, _: Bid) -> Token:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        anyio.run(check_store, MemoryRig.maker(Bug))

"""What the office tells of a candidate's way, of a store that goes and comes back, and of renewals that go together."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest
from tests.hearing import PATIENCE_S, Hearing

from tenure import sync
from tenure.election import Election
from tenure.errors import Reason, StaleToken, TenureOver, Unreachable
from tenure.facts import kinds as facts
from tenure.facts import subscribe
from tenure.facts.kinds import Fact
from tenure.lock import Lock
from tenure.model import Bid, Ended, Grant, Wait
from tenure.office.on_thread import BlockingTenure
from tenure.office.tenure import Tenure
from tenure.sinks import SQLiteSink
from tenure.stores.memory import MemoryEngine, MemoryStore

On = Callable[..., None]
TTL = 2.0


def kinds_of(heard: list[facts.What]) -> list[str]:
    """What happened, without the renewals, of which there may be any number."""
    return [facts.NAMES[type(what)] for what in heard if not isinstance(what, facts.Renewed)]


def test_the_way_of_a_leader_is_told_step_by_step(tmp_path: Path) -> None:
    with sync.open_store(f"sqlite://{tmp_path / 'x.db'}") as store, SQLiteSink(tmp_path / "ledger.db") as ledger:
        election = sync.Election(store, "x", ttl=TTL)
        with Hearing(election) as heard, election.once([ledger]) as term:
            while not any(isinstance(what, facts.Renewed) for what in heard.all):
                term.sleep(0.05)
            token = term.token
        told = heard.all
    assert kinds_of(told) == ["stood", "sealed", "elected", "left", "withdrew"]
    assert told[0] == facts.Stood(int(TTL * 1e9))
    assert (sealed := next(what for what in told if isinstance(what, facts.Sealed))).sinks == 1
    assert sealed.took_ns > 0
    renewed = next(what for what in told if isinstance(what, facts.Renewed))
    assert [bid.election for bid in renewed.bids] == ["x"]
    assert 0 < renewed.margin_ns < TTL * 1e9
    assert 0 < renewed.took_ns < TTL * 1e9
    assert facts.Left(token, Reason.RESIGNED) in told


def test_a_standby_tells_for_whom_it_waits_and_that_it_was_woken(on: On) -> None:
    async def test() -> None:
        engine = MemoryEngine()
        ada, bob = (Election(MemoryStore(engine), "x", ttl=TTL) for _ in range(2))
        with Hearing(bob) as heard:
            async with anyio.create_task_group() as tasks, ada.once() as term:
                tasks.start_soon(bob.lead, _nothing)
                while not any(isinstance(what, facts.Waiting) for what in heard.all):
                    await anyio.sleep(0.01)
                token = term.token
            told = heard.all
        waiting = next(what for what in told if isinstance(what, facts.Waiting))
        assert waiting.incumbent is not None
        assert (waiting.incumbent.holder, waiting.incumbent.token) == (ada.holder, token)
        names = kinds_of(told)
        assert names[0] == "stood"
        assert names.index("waiting") < names.index("woken") < names.index("elected") < names.index("left")

    on(test)


def test_who_is_deposed_tells_it_before_it_has_left(on: On) -> None:
    async def test() -> None:
        engine = MemoryEngine()
        election = Election(MemoryStore(engine), "x", ttl=TTL)

        async def body(_: Tenure) -> None:
            engine.delete("x")
            await anyio.sleep_forever()

        with Hearing(election) as heard:
            with pytest.raises(TenureOver, match="deposed"):
                await election.lead(body, once=True)
            told = heard.all
        at = [told.index(what) for what in (facts.Ending(1, Reason.DEPOSED), facts.Left(1, Reason.DEPOSED))]  # type: ignore[arg-type]
        assert at == sorted(at)

    on(test)


class Broken(MemoryStore):
    """A store whose network can be cut."""

    address = "memory://broken"
    cut = False

    async def claim(self, bid: Bid) -> Grant | Wait:
        if self.cut:
            raise Unreachable(self.address, "claim", "the cable is out")
        return await super().claim(bid)


def test_a_store_is_lost_once_and_comes_back_once_however_many_meet_it(on: On) -> None:
    async def test() -> None:
        store, told = Broken(), list[Fact]()
        lost = threading.Event()

        def hear(fact: Fact) -> None:
            if fact.store == store.address:
                told.append(fact)
                if isinstance(fact.what, facts.StoreFailed) and len(told) > 6:
                    lost.set()

        store.cut = True
        with subscribe(hear, kinds=(facts.StoreFailed, facts.StoreLost, facts.StoreBack)) as subscription:
            async with anyio.create_task_group() as tasks:
                for number in range(3):
                    tasks.start_soon(Election(store, f"x{number}", ttl=TTL).lead, _nothing)
                while not lost.is_set():
                    await anyio.sleep(0.01)
                store.cut = False
            assert subscription.wait_until_told(PATIENCE_S)
        names = [fact.name for fact in told]
        assert names.count("store-lost") == names.count("store-back") == 1
        assert names[0] == "store-failed"
        assert names[-1] == "store-back"
        failed = told[0]
        assert failed.what == facts.StoreFailed("claim", facts.Outcome.UNREACHABLE, "the cable is out")
        assert failed.election in {"x0", "x1", "x2"}

    on(test)


class Together(Broken):
    """One that renews many for the price of one, whatever becomes of claims."""

    address = "memory://together"

    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        return [await self.renew(grant) for grant in grants]


def test_a_store_that_renews_others_together_is_not_lost_for_whoever_has_given_up(on: On) -> None:
    async def test() -> None:
        store, back = Together(), threading.Event()
        together = threading.Event()

        def hear(fact: Fact) -> None:
            if fact.store == store.address and isinstance(fact.what, facts.Renewed) and len(fact.what.bids) == 2:
                together.set()
            if fact.store == store.address and isinstance(fact.what, facts.StoreBack):
                back.set()

        with subscribe(hear):
            async with Election(store, "a", ttl=TTL).once(), Election(store, "b", ttl=TTL).once():
                while not together.is_set():
                    await anyio.sleep(0.01)
                store.cut = True
                with pytest.raises(Unreachable):
                    await Lock(store, "c", ttl=TTL).acquire(timeout=0)
                with anyio.fail_after(PATIENCE_S):
                    while not back.is_set():
                        await anyio.sleep(0.01)

    on(test)


class Slow(MemoryStore):
    """One whose renewals are answered when it is told to."""

    address = "memory://slow"

    def __init__(self, engine: MemoryEngine) -> None:
        super().__init__(engine)
        self.asked, self.may_answer = threading.Event(), threading.Event()

    async def renew(self, grant: Grant) -> Grant | Ended:
        answer = await super().renew(grant)
        if not self.asked.is_set():
            self.asked.set()
            while not self.may_answer.is_set():
                await asyncio.sleep(0.001)
        return answer


def test_a_renewal_that_is_answered_when_the_tenure_is_over_is_not_told_as_one_without_a_margin() -> None:
    store = Slow(MemoryEngine())
    election = sync.Election(store, "x", ttl=TTL)
    terms: list[BlockingTenure] = []

    def body(term: BlockingTenure) -> None:
        terms.append(term)
        if len(terms) == 1:
            assert store.asked.wait(PATIENCE_S)
            term.progress(0)  # It stalls, and stands again.
            term.sleep(PATIENCE_S)

    with subscribe(lambda _: store.may_answer.set(), kinds=(facts.Left,)), Hearing(election) as heard:
        election.lead(body)
        renewed = [what for what in heard.all if isinstance(what, facts.Renewed)]
    assert len(terms) == 2
    assert [what.margin_ns for what in renewed if not what.margin_ns] == []


def test_who_has_no_sinks_is_not_told_to_have_sealed_them(tmp_path: Path) -> None:
    with sync.open_store(f"sqlite://{tmp_path / 'x.db'}") as store:
        election = sync.Election(store, "x", ttl=TTL)
        with Hearing(election) as heard, election.once():
            pass
    assert "sealed" not in kinds_of(heard.all)


def test_those_who_renew_together_are_one_fact(tmp_path: Path) -> None:
    told: list[facts.Renewed] = []
    together = threading.Event()

    def hear(fact: Fact) -> None:
        if isinstance(fact.what, facts.Renewed):
            told.append(fact.what)
            if len(fact.what.bids) == 3:
                together.set()

    with (
        subscribe(hear),
        sync.open_store(f"sqlite://{tmp_path / 'x.db'}") as store,
        sync.Election(store, "a", ttl=TTL).once(),
        sync.Election(store, "b", ttl=TTL).once(),
        sync.Election(store, "c", ttl=TTL).once(),
    ):
        assert together.wait(PATIENCE_S)
    one = next(renewed for renewed in told if len(renewed.bids) == 3)
    assert sorted(bid.election for bid in one.bids) == ["a", "b", "c"]
    assert 0 < one.margin_ns < TTL * 1e9


def test_a_sink_that_refuses_tells_which_it_is_and_why(tmp_path: Path) -> None:
    told: list[facts.What] = []
    with (
        subscribe(lambda fact: told.append(fact.what), kinds=(facts.RefusedStale,)) as subscription,
        sync.open_store(f"sqlite://{tmp_path / 'x.db'}") as store,
        SQLiteSink(tmp_path / "ledger.db") as ledger,
    ):
        with sync.Election(store, "x", ttl=TTL).once([ledger]) as old:
            pass
        with (
            sync.Election(store, "x", ttl=TTL).once([ledger]) as new,
            pytest.raises(StaleToken),
            ledger.transaction(SimpleNamespace(fence=old.fence, token=old.token)),
        ):
            pytest.fail("a stale leader wrote")
        assert subscription.wait_until_told(PATIENCE_S)
        assert told == [facts.RefusedStale("SQLiteSink", old.token, new.token, old.fence)]


async def _nothing(_: Tenure) -> None:
    pass

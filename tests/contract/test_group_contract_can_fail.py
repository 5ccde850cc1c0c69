"""Groups that break one promise each."""

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tenure.model import Bid, Ended, Grant, Holder
from tenure.stores.base import CanRenewGroups, Group, Roll
from tenure.stores.groups import ListedGroup
from tenure.stores.memory import MemoryStore
from tenure.testing import ContractBroken, MemoryRig, check_store
from tenure.testing.group_contract import GROUPS
from tenure.testing.store_contract import Make


class _HasGroups(MemoryStore):
    """An honest one; its groups below are not."""

    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        return [await self.renew(grant) for grant in grants]

    def group(self, within_ns: int) -> Group:  # noqa: ARG002
        return ListedGroup(self)


class _Broken(ListedGroup):
    """Its store makes groups like this one."""

    @classmethod
    def store(cls) -> type[MemoryStore]:
        return type(cls.__name__, (_HasGroups,), {"group": lambda store, _: cls(store)})


class RenewsWhoHasLeft(_Broken):
    def discard(self, grant: Grant) -> None:
        pass


class RenewsNobody(_Broken):
    async def renew(self) -> Roll:
        return Roll(frozenset(), ())


class NamesOnce(_Broken):
    named: frozenset[Bid] = frozenset()

    async def renew(self) -> Roll:
        ended = (await super().renew()).ended
        news, self.named = frozenset(ended - self.named), self.named | ended
        return Roll(news, ())


class TrustsWhoComes(_Broken):
    async def renew(self) -> Roll:
        roll = await super().renew()
        for bid in roll.ended:
            del self._grants[bid]
        return roll


class NamesNobody(_Broken):
    async def renew(self) -> Roll:
        return Roll(frozenset(), (await super().renew()).asked)


class ForgetsWhenCancelled(_Broken):
    cancelled = False

    async def renew(self) -> Roll:
        was_cancelled, self.cancelled = self.cancelled, True
        await checkpoint()
        self.cancelled = False
        return Roll(frozenset(self._grants), ()) if was_cancelled else await super().renew()


class AnswersByElection(_HasGroups):
    """Takes the tenure of an office that lasts for every tenure of that office."""

    async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
        answers = await super().renew_together(grants)
        lasting = {answer.bid.election for answer in answers if isinstance(answer, Grant)}
        return [grant if grant.bid.election in lasting else Ended(grant.bid, grant.token) for grant in grants]


BROKEN: list[tuple[str, Make]] = [
    ("group-is-renewed-and-nobody-else", MemoryRig.maker(store=RenewsWhoHasLeft.store())),
    ("group-is-renewed-and-nobody-else", MemoryRig.maker(store=RenewsNobody.store())),
    ("group-names-who-has-ended-every-time", MemoryRig.maker(store=NamesOnce.store())),
    ("group-names-who-has-ended-every-time", MemoryRig.maker(store=NamesNobody.store())),
    ("group-names-who-has-ended-every-time", MemoryRig.maker(store=TrustsWhoComes.store())),
    ("group-tells-tenures-of-one-office-apart", MemoryRig.maker(store=AnswersByElection)),
    ("cancelled-group-renewal-leaves-nothing", MemoryRig.maker(store=ForgetsWhenCancelled.store())),
]


def test_every_promise_about_groups_can_fail() -> None:
    assert {promise for promise, _ in BROKEN} == set(GROUPS)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(("promise", "make"), BROKEN, ids=[promise for promise, _ in BROKEN])
def test_a_broken_group_is_told_which_promise_it_breaks(promise: str, make: Make, backend: str) -> None:
    with pytest.raises(ContractBroken) as caught:
        anyio.run(check_store, make, backend=backend)
    assert caught.value.promise == promise


def test_a_store_with_honest_groups_keeps_the_contract() -> None:
    assert isinstance(_HasGroups(), CanRenewGroups)
    anyio.run(check_store, MemoryRig.maker(store=_HasGroups))


def test_whose_answers_too_few_answers_are_cannot_be_known() -> None:
    class Drops(_HasGroups):
        async def renew_together(self, grants: list[Grant]) -> list[Grant | Ended]:
            return (await super().renew_together(grants))[1:]

    async def main() -> None:
        store = Drops()
        grant = await store.claim(Bid("x", Holder.fresh(), 1, 10**9))
        assert isinstance(grant, Grant)
        group = store.group(10**9)
        group.add(grant)
        with pytest.raises(ValueError, match="0 answers to 1 renewals"):
            await group.renew()

    anyio.run(main)

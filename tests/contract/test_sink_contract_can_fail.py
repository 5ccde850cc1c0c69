"""Sinks that break one promise each, and must be told which: an oracle that nobody tried to fool is not an oracle."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest
import trio.testing
from anyio.lowlevel import checkpoint

from tenure.errors import ConfigError, StaleToken, Unreachable, UnverifiedToken
from tenure.model import Token
from tenure.sinks import Bound, Fence, Verify
from tenure.testing import SINK_CONTRACT, ContractBroken, check_sink, check_sink_promise
from tests.contract.miscounting_sinks import MISCOUNTING, TellsOfNoFence
from tests.contract.model_sink import Engine, ModelRig, ModelSink


class RefusesEverythingNew(ModelSink):
    def admit(self, fence: str, token: Token) -> None:
        highest = self.engine.fence(fence).highest
        if highest and token > highest:
            raise StaleToken(token, highest)
        super().admit(fence, token)


class TwiceRefused(ModelSink):
    async def write(self, fence: str, token: Token, value: str) -> None:
        if token == self.engine.fence(fence).highest:
            raise StaleToken(token, token)
        await super().write(fence, token, value)


class NoFence(ModelSink):
    def admit(self, fence: str, token: Token) -> None:
        self.engine.fence(fence).highest = token


class WritesThenChecks(ModelSink):
    async def write(self, fence: str, token: Token, value: str) -> None:
        self.engine.append(fence, value)
        self.admit(fence, token)


class WrongFields(ModelSink):
    def admit(self, fence: str, token: Token) -> None:
        try:
            super().admit(fence, token)
        except StaleToken as stale:
            raise StaleToken(stale.highest, stale.token) from None


class AnyOtherIsNewer(ModelSink):
    """Remembers whom it has seen last, instead of how far it has come."""

    def admit(self, fence: str, token: Token) -> None:
        known = self.engine.fence(fence)
        if token != known.highest:
            known.highest = token


class SealIsForgotten(ModelSink):
    async def seal(self, fence: str, token: Token) -> None:
        pass


class SealWrites(ModelSink):
    async def seal(self, fence: str, token: Token) -> None:
        await self.write(fence, token, "sealed")


class SealsOnce(ModelSink):
    async def seal(self, fence: str, token: Token) -> None:
        if token == self.engine.fence(fence).highest:
            raise StaleToken(token, token)
        await super().seal(fence, token)


class SealLowers(ModelSink):
    async def seal(self, fence: str, token: Token) -> None:
        self.engine.fence(fence).highest = token


class SealIsSilent(ModelSink):
    async def seal(self, fence: str, token: Token) -> None:
        if token >= self.engine.fence(fence).highest:
            await super().seal(fence, token)


class FloatingPoint(ModelSink):
    def admit(self, fence: str, token: Token) -> None:
        known = self.engine.fence(fence)
        if float(token) < float(known.highest):
            raise StaleToken(token, known.highest)
        known.highest = token


class WhateverCompares(ModelSink):
    def admit(self, fence: str, token: Token) -> None:
        known = self.engine.fence(fence)
        if token < known.highest:
            raise StaleToken(token, known.highest)
        known.highest = token


class AnyInteger(WhateverCompares):
    def admit(self, fence: str, token: Token) -> None:
        if type(token) is not int:
            raise ConfigError("token", token, "must be an integer")
        super().admit(fence, token)


class OneFence(Engine):
    def fence(self, name: str) -> Fence:
        return super().fence(name.partition("/")[0])


class FenceOfAPrefix(Engine):
    """Looks for the fence by a pattern, and finds the one whose name begins the same."""

    def fence(self, name: str) -> Fence:
        alike = [known for known in self.fences if name.startswith(known)]
        return super().fence(min(alike, default=name))


class FenceInTheClient(ModelSink):
    def __init__(self, engine: Engine, verify: Verify | None) -> None:
        own = Engine()
        own.accepted = engine.accepted
        super().__init__(own, verify)


class FenceInMemory(ModelRig):
    async def restart(self) -> None:
        self.engine.fences.clear()


class ChecksFirst(ModelRig):
    """The check is a transaction of its own: its writer dies, and the fence has been raised for nothing."""

    async def crash_between_check_and_write(self, term: Bound, value: str) -> None:
        del value
        self.engine.fence(term.fence).admit(Token(term.token))


class WritesFirst(ModelRig):
    async def crash_between_check_and_write(self, term: Bound, value: str) -> None:
        self.engine.append(term.fence, value)


class CheckAndWriteApart(ModelSink):
    """There is a way between the check and the write, and it is not always equally long."""

    async def write(self, fence: str, token: Token, value: str) -> None:
        self.admit(fence, token)
        for _ in range(100 // token):
            await checkpoint()
        self.engine.append(fence, value)


class LosesOne(ModelSink):
    async def write(self, fence: str, token: Token, value: str) -> None:
        await super().write(fence, token, value)
        if value == "10/47":
            self.engine.accepted[fence].remove(value)


class KeepsItsLock(ModelSink):
    """Cancelled between taking a lock and giving it back."""

    locked = False

    async def seal(self, fence: str, token: Token) -> None:
        if self.locked:
            raise Unreachable("model", "seal", "locked")
        self.admit(fence, token)
        self.locked = True
        await super().seal(fence, token)
        self.locked = False


class NeverVerifies(ModelSink):
    async def confirm(self, fence: str, token: Token) -> None:
        pass


class VerifiesOnlySeals(ModelSink):
    async def write(self, fence: str, token: Token, value: str) -> None:
        self.admit(fence, token)
        self.engine.append(fence, value)


class RaisesThenVerifies(ModelSink):
    async def seal(self, fence: str, token: Token) -> None:
        highest = self.engine.fence(fence).highest
        self.admit(fence, token)
        if self.verify is not None and not await self.verify(fence, token):  # type: ignore[misc]
            raise UnverifiedToken(token, highest)


class VerifiesEveryTime(ModelSink):
    async def confirm(self, fence: str, token: Token) -> None:
        if self.verify is not None and token == self.engine.fence(fence).highest:
            answer = self.verify(fence, token)
            assert not isinstance(answer, bool)
            await answer
        await super().confirm(fence, token)


Make = Callable[[], AbstractAsyncContextManager[ModelRig]]

BROKEN: list[tuple[str, Make]] = [
    ("newer-is-accepted", ModelRig.maker(RefusesEverythingNew)),
    ("equal-is-accepted", ModelRig.maker(TwiceRefused)),
    ("older-is-refused", ModelRig.maker(NoFence)),
    ("older-is-refused", ModelRig.maker(WritesThenChecks)),
    ("older-is-refused", ModelRig.maker(WrongFields)),
    ("older-is-refused", ModelRig.maker(AnyOtherIsNewer)),
    ("older-is-refused", ModelRig.maker(FenceInTheClient)),
    ("seal-refuses-older-at-once", ModelRig.maker(SealIsForgotten)),
    ("seal-refuses-older-at-once", ModelRig.maker(SealWrites)),
    ("seal-is-idempotent", ModelRig.maker(SealsOnce)),
    ("stale-seal-is-refused", ModelRig.maker(SealLowers)),
    ("stale-seal-is-refused", ModelRig.maker(SealIsSilent)),
    ("tokens-are-exact", ModelRig.maker(FloatingPoint)),
    ("only-integers-are-tokens", ModelRig.maker(WhateverCompares)),
    ("only-integers-are-tokens", ModelRig.maker(AnyInteger)),
    ("fences-are-independent", ModelRig.maker(engine=OneFence)),
    ("fences-are-independent", ModelRig.maker(engine=FenceOfAPrefix)),
    ("fence-survives-reopening", FenceInMemory.maker()),
    ("crash-between-check-and-write-leaves-neither", ChecksFirst.maker()),
    ("crash-between-check-and-write-leaves-neither", WritesFirst.maker()),
    ("cancelled-seal-leaves-nothing", ModelRig.maker(KeepsItsLock)),
    ("fifty-writers-never-go-down", ModelRig.maker(CheckAndWriteApart)),
    ("fifty-writers-never-go-down", ModelRig.maker(LosesOne)),
    ("unverified-token-is-refused", ModelRig.maker(NeverVerifies)),
    ("unverified-token-is-refused", ModelRig.maker(VerifiesOnlySeals)),
    ("unverified-token-is-refused", ModelRig.maker(RaisesThenVerifies)),
    ("known-tokens-are-not-verified-again", ModelRig.maker(VerifiesEveryTime)),
    *(("refusals-are-counted", ModelRig.maker(sink)) for sink in MISCOUNTING),
    ("refusals-are-told-with-their-fence", ModelRig.maker(TellsOfNoFence)),
]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_model_sink_keeps_the_contract(backend: str) -> None:
    kept: list[str] = []
    for promise in SINK_CONTRACT:
        anyio.run(check_sink_promise, promise, ModelRig.maker(), backend=backend)
        kept.append(promise)
    assert kept == list(SINK_CONTRACT)


def test_every_promise_can_fail() -> None:
    assert {promise for promise, _ in BROKEN} == set(SINK_CONTRACT)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(("promise", "make"), BROKEN, ids=[promise for promise, _ in BROKEN])
def test_a_broken_sink_is_told_which_promise_it_breaks(promise: str, make: Make, backend: str) -> None:
    with pytest.raises(ContractBroken) as caught:
        anyio.run(check_sink, make, backend=backend)
    assert caught.value.promise == promise


class CutOff(ModelSink):
    async def write(self, fence: str, token: Token, value: str) -> None:
        del fence, token
        raise Unreachable("model", f"write {value}")


def test_a_sink_that_raises_breaks_the_promise_that_was_being_checked() -> None:
    with pytest.raises(ContractBroken, match="newer-is-accepted: raised Unreachable: model: write one was not sent"):
        anyio.run(check_sink, ModelRig.maker(CutOff))


class Hangs(ModelSink):
    async def seal(self, fence: str, token: Token) -> None:
        del fence, token
        await anyio.sleep_forever()


def test_a_call_that_never_comes_back_is_a_broken_promise_and_not_a_run_that_hangs() -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)
    with pytest.raises(ContractBroken, match="seal-refuses-older-at-once: a call did not come back"):
        anyio.run(check_sink, ModelRig.maker(Hangs), backend="trio", backend_options={"clock": clock})


def test_an_error_that_says_nothing_of_the_promise_passes_through() -> None:
    class Bug(ModelSink):
        def admit(self, fence: str, token: Token) -> None:
            raise ZeroDivisionError(fence, token)

    with pytest.raises(ZeroDivisionError):
        anyio.run(check_sink, ModelRig.maker(Bug))

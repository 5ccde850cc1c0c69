"""Sinks that refuse what they must, and count it wrongly."""

from tenure.errors import UnverifiedToken
from tenure.model import Token
from tenure.sinks import Refusals, Verify
from tests.contract.model_sink import Engine, ModelSink


class HasNoCounter(ModelSink):
    def __init__(self, engine: Engine, verify: Verify | None) -> None:
        super().__init__(engine, verify)
        self.uncounted = ModelSink(engine, verify)
        del self.refused

    async def seal(self, fence: str, token: Token) -> None:
        await self.uncounted.seal(fence, token)

    async def write(self, fence: str, token: Token, value: str) -> None:
        await self.uncounted.write(fence, token, value)


class CountsNothing(ModelSink):
    async def seal(self, fence: str, token: Token) -> None:
        await ModelSink(self.engine, self.verify).seal(fence, token)

    async def write(self, fence: str, token: Token, value: str) -> None:
        await ModelSink(self.engine, self.verify).write(fence, token, value)


class CountsOnlySeals(ModelSink):
    async def write(self, fence: str, token: Token, value: str) -> None:
        await ModelSink(self.engine, self.verify).write(fence, token, value)


class CountsOnlyWrites(ModelSink):
    async def seal(self, fence: str, token: Token) -> None:
        await ModelSink(self.engine, self.verify).seal(fence, token)


class CountsForgersAsStale(ModelSink):
    async def confirm(self, fence: str, token: Token) -> None:
        try:
            await super().confirm(fence, token)
        except UnverifiedToken:
            self.refused.unverified -= 1
            self.refused.stale += 1
            raise


class CountsTwice(ModelSink):
    """A write of a token that is not known seals it first, and both of them count."""

    async def write(self, fence: str, token: Token, value: str) -> None:
        with self.refused.counting(fence):
            if token != self.engine.fence(fence).highest:
                await self.seal(fence, token)
            await super().write(fence, token, value)


class CountsQuestions(ModelSink):
    """Counts a token before it is confirmed, and so an honest successor's, too."""

    async def confirm(self, fence: str, token: Token) -> None:
        highest = self.engine.fence(fence).highest
        if self.verify is not None and token > highest and await self.verify(fence, token):  # type: ignore[misc]
            self.refused.counted(UnverifiedToken(token, highest))
            return
        await super().confirm(fence, token)


class CountsForAll(ModelSink):
    """One counter for all sinks of a process."""

    shared = Refusals("CountsForAll")

    def __init__(self, engine: Engine, verify: Verify | None) -> None:
        super().__init__(engine, verify)
        self.refused = self.shared


class GivesUpAfterAForgery(ModelSink):
    """Trusts nobody any more once it was lied to."""

    async def confirm(self, fence: str, token: Token) -> None:
        if self.refused.unverified and self.refused.stale:
            raise UnverifiedToken(token, self.engine.fence(fence).highest)
        await super().confirm(fence, token)


class TellsOfNoFence(ModelSink):
    """Counts as it should, and whoever hears of it cannot know of which election."""

    async def write(self, fence: str, token: Token, value: str) -> None:
        with self.refused.counting():
            await self.confirm(fence, token)
            self.admit(fence, token)
            self.engine.append(fence, value)


MISCOUNTING: list[type[ModelSink]] = [
    HasNoCounter,
    CountsNothing,
    CountsOnlySeals,
    CountsOnlyWrites,
    CountsForgersAsStale,
    CountsTwice,
    CountsQuestions,
    CountsForAll,
    GivesUpAfterAForgery,
]

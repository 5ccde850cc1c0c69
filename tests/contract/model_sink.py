"""A sink that keeps every promise in its plainest form, for others to break one of them, and its rig."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from inspect import isawaitable

from anyio.lowlevel import checkpoint

from tenure.errors import UnverifiedToken
from tenure.model import Token
from tenure.sinks import Bound, Fence, Refusals, Verify


class Engine:
    """What survives a restart: the fences, and what was accepted under each."""

    def __init__(self) -> None:
        self.fences: dict[str, Fence] = {}
        self.accepted: dict[str, list[str]] = {}

    def fence(self, name: str) -> Fence:
        return self.fences.setdefault(name, Fence())

    def append(self, name: str, value: str) -> None:
        self.accepted.setdefault(name, []).append(value)


class ModelSink:
    """The rule in its plainest form. One event loop and no await between check and write: one atomic step."""

    def __init__(self, engine: Engine, verify: Verify | None) -> None:
        self.engine, self.verify, self.refused = engine, verify, Refusals(type(self).__name__)

    async def seal(self, fence: str, token: Token) -> None:
        with self.refused.counting(fence):
            await self.confirm(fence, token)
            self.admit(fence, token)
        await checkpoint()

    async def write(self, fence: str, token: Token, value: str) -> None:
        with self.refused.counting(fence):
            await self.confirm(fence, token)
            self.admit(fence, token)
            self.engine.append(fence, value)
        await checkpoint()

    def admit(self, fence: str, token: Token) -> None:
        self.engine.fence(fence).admit(token)

    async def confirm(self, fence: str, token: Token) -> None:
        highest = self.engine.fence(fence).highest
        if self.verify is not None and token > highest:
            answer = self.verify(fence, token)
            if not (await answer if isawaitable(answer) else answer):
                raise UnverifiedToken(token, highest)


class ModelRig:
    def __init__(self, sink: type[ModelSink], engine: type[Engine]) -> None:
        self.engine, self.sink = engine(), sink

    @classmethod
    def maker(
        cls, sink: type[ModelSink] = ModelSink, engine: type[Engine] = Engine
    ) -> Callable[[], AbstractAsyncContextManager["ModelRig"]]:
        @asynccontextmanager
        async def make() -> AsyncIterator[ModelRig]:
            yield cls(sink, engine)

        return make

    @asynccontextmanager
    async def open(self, verify: Verify | None = None) -> AsyncIterator[ModelSink]:
        yield self.sink(self.engine, verify)

    async def write(self, client: ModelSink, term: Bound, value: str) -> None:
        await client.write(term.fence, Token(term.token), value)

    async def read_all(self, fence: str) -> list[str]:
        return list(self.engine.accepted.get(fence, []))

    async def crash_between_check_and_write(self, term: Bound, value: str) -> None:
        pass  # Nothing has happened yet: check and write happen together.

    async def restart(self) -> None:
        pass

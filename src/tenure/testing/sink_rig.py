"""What the sink contract needs of the system under test, and the words in which its promises are written.

Rules of this file
1. What counts is what can be read from the sink afterwards, not what its clients were told.
2. A client is opened as another process would have it. Nothing that one client remembers may be what keeps a promise.
3. A check as a whole has a limit in real time: a lock that is never given back is a broken promise, not a run that hangs.
"""

import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import wraps
from typing import Any, Generic, Protocol, TypeVar

import anyio

from tenure.errors import ConfigError, StaleToken, TenureError, UnverifiedToken
from tenure.model import Token
from tenure.sinks.base import Bound, CountingSink, Verify
from tenure.testing.rig import expect, told_of

SinkT = TypeVar("SinkT", bound=CountingSink)

_LIMIT_S = 60  # What a check may take. The longest makes fifty writes; the rest is for systems that are slow to start.


class SinkRig(Protocol[SinkT]):
    """One system under test. The contract makes up the names of its fences, so a system may be used again."""

    def open(self, verify: Verify | None = None) -> AbstractAsyncContextManager[SinkT]:
        """Open a client as another process would have it; leaving it is the end of that process."""
        ...

    async def write(self, client: SinkT, term: Bound, value: str) -> None:
        """Write ``value`` as one fenced write, to what is fenced under ``term.fence``."""
        ...

    async def read_all(self, fence: str) -> list[str]:
        """Return every value that was accepted under this fence, in the order in which the system has them."""
        ...

    async def crash_between_check_and_write(self, term: Bound, value: str) -> None:
        """Begin a fenced write in a process of its own, and kill that at the worst moment.

        The check has been passed and the write is not complete. Where both are one request, it is lost on its way.
        """
        ...

    async def restart(self) -> None:
        """Stop the system and start it again with its data; return once it can be spoken to."""
        ...


@dataclass(frozen=True, slots=True)
class Term:
    """The part of a tenure that a sink knows."""

    fence: str
    token: Token


@dataclass(frozen=True, slots=True)
class SinkPlay(Generic[SinkT]):
    """What a check works with: the rig, and a fence that nobody used before."""

    rig: SinkRig[SinkT]
    fence: str
    stack: AsyncExitStack

    def term(self, token: int) -> Term:
        return Term(self.fence, Token(token))

    async def enter(self, count: int = 1, verify: Verify | None = None) -> list[SinkT]:
        """Open ``count`` clients until the end of the check."""
        return [await self.stack.enter_async_context(self.rig.open(verify)) for _ in range(count)]

    async def accepts(self, client: SinkT, term: Term, value: str) -> None:
        before = await self.rig.read_all(term.fence)
        await self.rig.write(client, term, value)
        after = await self.rig.read_all(term.fence)
        expect(
            after == [*before, value], f"{value!r} was accepted under token {term.token}, and {before} became {after}"
        )

    async def refuses(self, client: SinkT, term: Term, refusal: TenureError) -> None:
        """Expect that a write is refused in these words, and that nothing of it can be read."""
        before = await self.rig.read_all(term.fence)
        await self._refused(self.rig.write(client, term, "refused"), f"a write under token {term.token}", refusal)
        after = await self.rig.read_all(term.fence)
        expect(after == before, f"a write was refused, but {before} became {after}")

    async def refuses_seal(self, client: SinkT, term: Term, refusal: TenureError) -> None:
        await self._refused(client.seal(term.fence, term.token), f"a seal with token {term.token}", refusal)

    async def has_no_use_for(self, client: SinkT, token: Any) -> None:
        """Expect that neither a write nor a seal takes this for a token, and that nothing of it can be read."""
        before = await self.rig.read_all(self.fence)
        calls: dict[str, Callable[[], Awaitable[None]]] = {
            "a write": lambda: self.rig.write(client, Term(self.fence, token), "refused"),
            "a seal": lambda: client.seal(self.fence, token),
        }
        for what, call in calls.items():
            try:
                await call()
            except ConfigError as told:
                expect(told.setting == "token", f"{what} under {token!r} was refused with {told!r}")
            else:
                expect(False, f"{what} under {token!r} was accepted, which is no token")
        after = await self.rig.read_all(self.fence)
        expect(after == before, f"{token!r} is no token, but {before} became {after}")

    @staticmethod
    def counts(client: SinkT, stale: int, unverified: int) -> None:
        """Expect that so many of each kind were refused through this client, and no more."""
        refused = getattr(client, "refused", None)
        told = getattr(refused, "stale", None), getattr(refused, "unverified", None)
        expect(
            told == (stale, unverified),
            f"{stale} stale and {unverified} unverified were refused, and it counts {refused}",
        )

    @staticmethod
    async def _refused(call: Awaitable[None], what: str, refusal: TenureError) -> None:
        try:
            await call
        except (StaleToken, UnverifiedToken) as told:
            same = type(told) is type(refusal) and told.args == refusal.args
            expect(same, f"{what} was refused with {told!r} instead of {refusal!r}")
            return
        expect(False, f"{what} was accepted where {refusal!r} is due")


SinkCheck = Callable[[SinkPlay[Any]], Awaitable[None]]
SinkPromise = Callable[[SinkRig[Any]], Awaitable[None]]


class SinkPromises(dict[str, SinkPromise]):
    """Promises by name, in the order in which they are checked: the simplest first, as later ones build on it."""

    def keep(self, name: str) -> Callable[[SinkCheck], SinkCheck]:
        """Register a check under the promise that is broken if it fails."""

        def register(check: SinkCheck) -> SinkCheck:
            @wraps(check)
            async def checked(rig: SinkRig[Any]) -> None:
                await _run(name, check, rig)

            self[name] = checked
            return check

        return register


async def _run(name: str, check: SinkCheck, rig: SinkRig[Any]) -> None:
    with told_of(name, AssertionError, TenureError), anyio.fail_after(_LIMIT_S):
        async with AsyncExitStack() as stack:
            await check(SinkPlay(rig, f"contract/{name}/{secrets.token_hex(4)}", stack))

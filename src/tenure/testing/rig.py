"""What the store contract needs of the engine under test, and the words in which its promises are written.

Rules of this file
1. Time is the engine's. A check lets it pass through the rig and never sleeps itself, so that a virtual clock costs no
   time and a real engine gets all it needs.
2. A wait has a limit in the engine's time, and a check as a whole has one in real time: a lost wake-up is a broken
   promise with a name, not a run that hangs.
3. A candidate is a holder with a connection of its own, as it would be in a process of its own.
"""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Protocol

import anyio
from anyio.lowlevel import checkpoint

from tenure.errors import StoreError
from tenure.model import Bid, Ended, Grant, Holder, Incumbent, Wait
from tenure.stores.base import Store, Traits

# How finely a wait looks: a twentieth of a ttl keeps a wait for half a ttl from being off by more than a tenth of itself.
_LOOKS_PER_TTL = 20
# What a check may take in real time. Checks let at most ten leases lapse; the rest is for engines that are slow to start.
_LAPSES_MAX = 20
_SLOW_ENGINE_S = 30


class Rig(Protocol):
    """One engine under test. The contract makes up the names of its elections, so engines may be used again."""

    @property
    def ttl_ns(self) -> int:
        """The ttl to test with: the shortest of which the engine and this machine can tell two thirds from the whole."""
        ...

    def open(self) -> AbstractAsyncContextManager[Store]:
        """Open a connection as another process would have it; leaving it is the end of that process."""
        ...

    async def delete_record(self, election: str) -> None:
        """Delete whatever the engine keeps under this election's name, as an operator would do it by hand."""
        ...

    async def restart(self) -> None:
        """Stop the engine and start it again with its data; return once it can be spoken to."""
        ...

    async def pass_time(self, ns: int) -> None:
        """Let at least ``ns`` nanoseconds of the engine's time pass, and let the tasks that this wakes run."""
        ...


class ContractBroken(AssertionError):
    """A store does not keep ``promise`` (a key of ``CONTRACT``); ``detail`` says what was seen."""

    def __init__(self, promise: str, detail: str) -> None:
        self.promise, self.detail = promise, detail
        super().__init__(promise, detail)

    def __str__(self) -> str:
        return f"{self.promise}: {self.detail}"


class _Unkept(AssertionError):
    """An expectation that was not met, before the promise that it belongs to is named."""


def expect(holds: bool, detail: str) -> None:
    """Say that a promise is broken unless ``holds``. Not ``assert``, which ``python -O`` leaves out."""
    if not holds:
        raise _Unkept(detail)


class Candidate:
    """One holder on one connection, with one expectation for each answer that a store can give."""

    def __init__(self, store: Store, election: str, ttl_ns: int) -> None:
        self.store, self.election, self.ttl_ns = store, election, ttl_ns
        self.holder = Holder.fresh()
        self.advertise = ""

    def bid(self, serial: int = 1) -> Bid:
        return Bid(self.election, self.holder, serial, self.ttl_ns, self.advertise)

    async def wins(self, serial: int = 1) -> Grant:
        answer = await self.store.claim(self.bid(serial))
        if not isinstance(answer, Grant):
            raise _Unkept(f"the office is free, but a claim got {answer}")
        expect(answer.bid == self.bid(serial), f"a claim got the grant of another bid: {answer}")
        return answer

    async def waits(self, serial: int = 1) -> Wait:
        answer = await self.store.claim(self.bid(serial))
        if not isinstance(answer, Wait):
            raise _Unkept(f"the office belongs to somebody else, but a claim got {answer}")
        expect(answer.bid == self.bid(serial), f"a claim was told to wait for another bid: {answer}")
        return answer

    async def keeps(self, grant: Grant) -> None:
        answer = await self.store.renew(grant)
        expect(answer == grant, f"the tenure lasts, but its renewal got {answer}")

    async def lost(self, grant: Grant) -> None:
        answer = await self.store.renew(grant)
        expect(answer == Ended(grant.bid, grant.token), f"the tenure has ended, but its renewal got {answer}")

    async def leaves(self, serial: int = 1) -> None:
        await self.store.release(self.bid(serial))

    async def sees(self, grant: Grant | None) -> None:
        seen = await self.store.read(self.election)
        due = None if grant is None else Incumbent(self.election, grant.bid.holder, grant.token, grant.bid.advertise)
        expect(seen == due, f"read tells {seen} where the office belongs to {due}")


@dataclass(slots=True)
class Standby:
    """A candidate that claims again whenever ``changed`` returns, and at no other time."""

    grant: Grant | None = None
    wake_count: int = 0

    def won(self) -> bool:
        return self.grant is not None

    async def stand_by(self, candidate: Candidate, wait: Wait) -> Grant:
        while self.grant is None:
            await candidate.store.changed(wait)
            self.wake_count += 1
            await checkpoint()  # Else a ``changed`` that never waits could not be interrupted by any limit.
            answer = await candidate.store.claim(wait.bid)
            self.grant = answer if isinstance(answer, Grant) else None
        return self.grant


@dataclass(frozen=True, slots=True)
class Play:
    """What a check works with: the rig, its traits, and an election that nobody used before."""

    rig: Rig
    traits: Traits
    election: str
    stack: AsyncExitStack

    @property
    def ttl_ns(self) -> int:
        return self.rig.ttl_ns

    @property
    def slack_ns(self) -> int:
        """How long after its ttl a dead holder's office may stay taken."""
        return self.traits.slack_ns(self.ttl_ns)

    async def enter(self, count: int) -> list[Candidate]:
        """Open ``count`` connections, with one candidate each, until the end of the check."""
        stores = [await self.stack.enter_async_context(self.rig.open()) for _ in range(count)]
        return [Candidate(store, self.election, self.ttl_ns) for store in stores]

    async def most_of_a_ttl(self) -> None:
        """Let two thirds pass: a lease counted anew lasts, one that was not is over after the second time."""
        await self.rig.pass_time(self.ttl_ns * 2 // 3)

    async def lapse(self) -> None:
        """Let every lease end that nobody prolongs."""
        await self.rig.pass_time(self.ttl_ns + self.slack_ns)

    async def a_moment(self) -> None:
        """Let what was begun get under way: a watch be set up, a request be sent."""
        await self.rig.pass_time(self.ttl_ns // _LOOKS_PER_TTL)

    async def within(self, limit_ns: int, seen: Callable[[], bool], detail: str) -> None:
        """Expect ``seen`` before ``limit_ns`` of the engine's time, and its slack, have passed."""
        passed_ns, step_ns = 0, self.ttl_ns // _LOOKS_PER_TTL
        while not seen():
            expect(passed_ns < limit_ns + self.slack_ns, detail)
            await self.rig.pass_time(step_ns)
            passed_ns += step_ns

    async def soon(self, seen: Callable[[], bool], detail: str) -> None:
        """Expect ``seen`` in half a ttl: well before a lease that was granted just now could end by itself."""
        await self.within(self.ttl_ns // 2, seen, detail)

    @asynccontextmanager
    async def standby(self, candidate: Candidate, wait: Wait) -> AsyncIterator[Standby]:
        """Stand by in the background; yields once the watch has had time to begin."""
        standby = Standby()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(standby.stand_by, candidate, wait)
            await self.a_moment()
            yield standby
            tasks.cancel_scope.cancel()


Check = Callable[[Play], Awaitable[None]]
Promise = Callable[[Rig], Awaitable[None]]


class Promises(dict[str, Promise]):
    """Promises by name, in the order in which they are checked: the simplest first, as later ones build on it."""

    def keep(self, name: str) -> Callable[[Check], Check]:
        """Register a check under the promise that is broken if it fails."""

        def register(check: Check) -> Check:
            @wraps(check)
            async def checked(rig: Rig) -> None:
                await _run(name, check, rig)

            self[name] = checked
            return check

        return register


async def _run(name: str, check: Check, rig: Rig) -> None:
    with told_of(name, _Unkept, StoreError):
        with anyio.fail_after(_SLOW_ENGINE_S):
            async with rig.open() as store:
                traits = store.traits
        with anyio.fail_after(_SLOW_ENGINE_S + _LAPSES_MAX * (rig.ttl_ns + traits.slack_ns(rig.ttl_ns)) / 1e9):
            async with AsyncExitStack() as stack:
                await check(Play(rig, traits, f"contract/{name}/{secrets.token_hex(4)}", stack))


@contextmanager
def told_of(promise: str, *kinds: type[Exception]) -> Iterator[None]:
    """Make ContractBroken of a call that does not come back, and of errors of these kinds. Others say nothing of the promise."""
    try:
        yield
    except TimeoutError as error:
        raise ContractBroken(promise, f"a call did not come back: {error}") from error
    except kinds as error:
        raise ContractBroken(promise, _words(error)) from error
    except BaseExceptionGroup as group:  # A task group wraps whatever is raised in it.
        told = group.subgroup(kinds)
        if told is None:
            raise
        raise ContractBroken(promise, _words(_first(told))) from group


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, AssertionError) else f"raised {type(error).__name__}: {error}"


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error

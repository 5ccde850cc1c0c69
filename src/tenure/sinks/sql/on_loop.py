"""A sink over a driver that awaits. Runs on asyncio.

Rules of this file
1. A connection belongs to one transaction at a time, and only to transactions of this sink.
2. A connection on which anything is left open, or not known, is dropped. What was open on it dies with it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Generic, Self

from anyio import Semaphore

from tenure.errors import ConfigError, OutcomeUnknown, StoreError, Unreachable, UnverifiedToken
from tenure.model import Token
from tenure.sinks.base import Bound, Verify
from tenure.sinks.judging import JudgingSink
from tenure.sinks.refusals import REFUSED
from tenure.sinks.sql.bound_on_loop import BoundOnLoop, LoopTransaction
from tenure.sinks.sql.dialect import Dialect
from tenure.sinks.sql.drivers import LoopDriver
from tenure.sinks.sql.flow import NO_ANSWER, Flow, Kept, Limits, check_open, ended_too_early
from tenure.sinks.sql.talk import Raw, T, Talk, Trouble, Unfinished, carry_out, checked
from tenure.sinks.verifying import confirmed

_FRESH_S = 1.0  # Much shorter than whatever ends connections that are idle, and long beside a transaction.


class LoopSink(JudgingSink, Generic[Raw]):
    """What all sinks over drivers that await have in common."""

    def __init__(
        self, dialect: Dialect, driver: LoopDriver[Raw], limits: Limits, connections_max: int, verify: Verify | None
    ) -> None:
        super().__init__(verify)
        self.name = driver.address
        self._flow, self.driver = Flow(dialect, limits), driver
        self.sealed = self._flow.sealed  # as transactions want to know it
        self._room = Semaphore(connections_max, fast_acquire=True)
        self._idle: list[Kept[Raw]] = []
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<{self.name}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def bind(self, term: Bound) -> BoundOnLoop[Raw]:
        """Return the sink as ``term`` may use it. It fails once that tenure has been succeeded."""
        return BoundOnLoop(self, term)

    def transaction(self, term: Bound, isolation: str = "") -> LoopTransaction[Raw]:
        """Return a transaction whose writes count under ``term``: ``async with sink.transaction(term) as connection``.

        It commits at the end, and rolls back on any error. Raises StaleToken, at its beginning or in place of the commit, if a
        larger token was here; nothing was written then. Raises OutcomeUnknown if the commit was sent and no answer came. The
        connection is the sink's own. Do not COMMIT or ROLLBACK inside: what came before would not be fenced.
        """
        return LoopTransaction(self, term, isolation)

    async def seal(self, fence: str, token: Token) -> None:
        """Raise the fence to ``token`` (see ``Sink``).

        Waits for transactions that have checked an older token. After ``wait_s`` it has the server end their sessions.
        """
        number = checked(fence, token)
        await self.admitted(fence, number, lambda known_only: self._seal(fence, number, may_raise=not known_only))

    async def _seal(self, fence: str, token: Token, *, may_raise: bool) -> None:
        limits = self._flow.limits
        tasks = [asyncio.ensure_future(self._seal_apart(fence, token, may_raise=may_raise))]
        try:
            async with asyncio.timeout(limits.seal_s):
                await asyncio.wait(tasks, timeout=limits.wait_ms / 1000)
                if not tasks[0].done() and self._flow.dialect.needs_helper:
                    tasks.append(asyncio.ensure_future(self._end_blockers(fence)))
                await tasks[0]
        except TimeoutError:
            raise OutcomeUnknown(self.name, "seal", NO_ANSWER) from None
        finally:
            for task in tasks:
                task.cancel()

    async def _seal_apart(self, fence: str, token: Token, *, may_raise: bool) -> None:
        # Not one of the connections that there is a limit of: transactions may have them all.
        check_open(self.name, is_closed=self._is_closed)
        kept = await self._open("seal")
        try:
            await self._say(kept, "seal", self._flow.seal(fence, token, may_raise=may_raise))
        finally:
            self.driver.drop(kept.raw)

    async def _end_blockers(self, fence: str) -> None:
        with suppress(StoreError, Trouble):  # If it may not do so, the seal says that it has waited in vain.
            kept = await self._open("seal")  # On a connection of its own: that of the seal waits.
            try:
                await self._talk(kept, self._flow.dialect.end_blockers(fence))
            finally:
                self.driver.drop(kept.raw)

    async def admit(self, fence: str, token: int, *, known_only: bool = False) -> None:
        """Raise the fence to ``token``, for services and workers that keep their mark here (see ``AsyncMark``).

        A token that the fence stands at costs a read. With ``known_only`` a higher one raises UnverifiedToken.
        """
        number, highest = checked(fence, token), await self.highest(fence)
        if known_only and number > highest:
            raise UnverifiedToken(number, highest)
        if number != highest:
            await self.seal(fence, number)

    async def highest(self, fence: str) -> int:
        """Return the highest token seen; 0: none. It may be larger by the time that you read it."""
        checked(fence, 1)
        reading = asyncio.ensure_future(self._alone("read", lambda: self._flow.highest(fence)))
        try:
            await asyncio.wait([reading], timeout=self._flow.limits.answer_s)
            if reading.done():
                return reading.result()
        finally:
            reading.cancel()  # And not waited for: psycopg asks the server first whether it may.
        raise Unreachable(self.name, "read", NO_ANSWER)

    async def set_up(self) -> None:
        """Make the table of fences now, and not when it is first needed. Changes nothing if it is there."""
        await self._alone("set up", self._flow.dialect.set_up)

    async def install_triggers(self, table: str, *, fence: str) -> None:
        """Let ``table`` accept only what is written under the token that ``fence`` stands at, whoever writes.

        Until the first seal everything is refused. Changes nothing where all is in place, so call it at every start; a table has
        one fence, and installing another takes its place. Raises ConfigError for what is no ordinary table.
        """
        checked(fence, 1)
        await self.set_up()
        await self._alone("install triggers", lambda: self._flow.dialect.install_triggers(table, fence))

    async def remove_triggers(self, table: str) -> None:
        """Let anybody write to ``table`` again. Changes nothing if it has no triggers of ours."""
        await self._alone("remove triggers", lambda: self._flow.dialect.remove_triggers(table))

    async def fenced_tables(self) -> dict[str, str]:
        """Return the tables that have all their triggers, and the fence of each. To check at start that none was lost."""
        return await self._alone("list triggers", self._flow.dialect.fenced_tables)

    async def close(self) -> None:
        """Close the connections that are not in use; the others are closed when they have been used."""
        self._is_closed = True
        while self._idle:
            await self.driver.close(self._idle.pop().raw)
        await self.driver.settle()

    async def begin(self, fence: str, token: Token, isolation: str) -> Kept[Raw]:
        """Return a connection on which a transaction is open. It must be given back."""
        # Not a function in here: its annotations would be evaluated with every transaction, which takes longer than all the rest.
        may_raise = self.verify is None
        kept, refusal = await self._on_any(
            "begin", lambda kept: self._flow.begin(kept, fence, token, isolation, may_raise=may_raise)
        )
        if refusal is None:
            return kept
        begun = False
        try:
            if self.verify is None or not await confirmed(self.verify, fence, token):
                raise refusal
            await self._say(kept, "begin", self._flow.begin(kept, fence, token, isolation, may_raise=True))
            begun = True
        finally:
            if not begun:
                self.give_back(kept)
        return kept

    def postponed(self, fence: str, token: Token, isolation: str) -> tuple[Kept[Raw], Raw] | None:
        """Return a connection on which a transaction begins with the caller's first statement, and what the block is given of it.

        None: it has to be begun. The connection must be given back.

        One that has been idle for a while may have died, and is asked something that can be repeated before it is given out.
        """
        if not self._idle or self._is_closed or not self._room.value or self._flow.sealed.get(fence) != token:
            return None
        kept = self._idle[-1]
        idle_s = time.monotonic() - kept.used_at_s
        if idle_s > _FRESH_S:
            return None
        # As the last transaction on it began, mostly.
        so = fence, token, isolation
        begins_by = kept.begins_by if kept.begins_so == so else self._flow.beginning(kept, so)
        lent = self.driver.postpone(kept.raw, begins_by, idle_s)
        if lent is None:
            return None
        self._room.acquire_nowait()
        self._idle.pop()
        kept.is_clean, kept.presented = False, (fence, token)
        return kept, lent

    async def finish(
        self, kept: Kept[Raw], fence: str, token: Token, failed: Trouble | None, *, is_inside: bool
    ) -> None:
        """Check the token and commit, where that is not done by one question, or say what it means that this failed."""
        if not is_inside:
            # Dropped: who knows what else was done to the session, outside a transaction?
            rule = "must last until its block ends: what was committed inside was not fenced"
            raise ConfigError("transaction", "ended inside", rule)
        try:
            await self._talk(kept, self._flow.finish(fence, token, failed))
            kept.is_clean = True
        except Unfinished as trouble:
            raise ended_too_early() from trouble
        except Trouble as trouble:
            if not trouble.was_sent:
                raise self._flow.dialect.failure(self.name, "commit", trouble) from trouble.__cause__
            # What comes of the caller's own question came before the commit was sent.
            if not trouble.is_callers and not self._flow.dialect.is_definite(trouble):
                raise OutcomeUnknown(self.name, "commit", trouble.text) from trouble.__cause__
            await self.undo(kept, trouble, fence, token)
            raise (trouble.__cause__ or trouble) from None  # Such as a constraint that is checked last: the caller's.
        except REFUSED:  # And whatever else is wrong has it dropped: who knows what was done to the session?
            await self._roll_back(kept)
            raise

    async def undo(self, kept: Kept[Raw], error: Exception, fence: str, token: Token) -> None:
        """Roll back. Raises StaleToken if that is what the error comes down to."""
        trouble = error if isinstance(error, Trouble) else self.driver.trouble(error)
        refusal = None
        with suppress(Trouble, TimeoutError):  # Of a connection that is gone, and the transaction with it.
            if trouble is not None:
                async with asyncio.timeout(self._flow.limits.answer_s):
                    refusal = await self._talk(kept, self._flow.explain(trouble, fence, token))
            if self.driver.is_inside(kept.raw):
                await self._roll_back(kept)
        if refusal is not None:
            raise refusal from error

    async def _roll_back(self, kept: Kept[Raw]) -> None:
        with suppress(Trouble, TimeoutError):  # Otherwise it is dropped.
            async with asyncio.timeout(self._flow.limits.answer_s):
                await self._talk(kept, self._flow.roll_back())
            kept.is_clean = True

    async def _alone(self, operation: str, talk: Callable[[], Talk[T]]) -> T:
        kept, answer = await self._on_any(operation, lambda _: talk())
        kept.is_clean = True
        self.give_back(kept)
        return answer

    async def _on_any(self, operation: str, talk: Callable[[Kept[Raw]], Talk[T]]) -> tuple[Kept[Raw], T]:
        """Carry out a talk that may be repeated, and return the connection with the answer. It must be given back."""
        check_open(self.name, is_closed=self._is_closed)
        await self._room.acquire()
        kept: Kept[Raw] | None = None
        done = False
        try:
            # Again: it may have been closed while this waited for room.
            check_open(self.name, is_closed=self._is_closed)
            while self._idle:  # One that has died while nobody used it says so when it is used.
                kept = self._idle.pop()
                kept.is_clean = False
                if not self.driver.is_usable(kept.raw):
                    self.driver.drop(kept.raw)
                    continue
                try:
                    answer = await self._talk(kept, talk(kept))
                except Trouble as trouble:
                    if trouble.code and not self._flow.dialect.is_ended(trouble):
                        raise self._flow.dialect.failure(self.name, operation, trouble) from trouble.__cause__
                    self.driver.drop(kept.raw)
                    continue
                done = True
                return kept, answer
            kept = await self._open(operation)
            kept.is_clean = False
            answer = await self._say(kept, operation, talk(kept))
            done = True
            return kept, answer
        finally:
            if not done:
                self.give_back(kept)

    async def _open(self, operation: str) -> Kept[Raw]:
        try:
            raw = await self.driver.open()
            kept = Kept(raw, is_own=self.driver.is_own(raw))
        except Trouble as trouble:
            raise self._flow.dialect.failure(self.name, operation, trouble) from trouble.__cause__
        told = False
        try:
            await self._say(kept, operation, self._flow.opened(kept))
            told = True
        finally:
            if not told:
                self.driver.drop(kept.raw)
        return kept

    async def _say(self, kept: Kept[Raw], operation: str, talk: Talk[T]) -> T:
        try:
            return await self._talk(kept, talk)
        except Trouble as trouble:
            raise self._flow.dialect.failure(self.name, operation, trouble) from trouble.__cause__

    def _talk(self, kept: Kept[Raw], talk: Talk[T]) -> Awaitable[T]:
        return carry_out(self.driver.ask, kept.raw, talk)

    def give_back(self, kept: Kept[Raw] | None) -> None:
        """Keep a connection for the next one. Whether that can use it is seen then."""
        self._room.release()
        if kept is None:
            return
        if self._is_closed or not kept.is_clean:
            self.driver.drop(kept.raw)
        else:
            kept.used_at_s = time.monotonic()
            self._idle.append(kept)

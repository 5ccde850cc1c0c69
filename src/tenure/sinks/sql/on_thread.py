"""A sink over a driver that blocks: the same as ``on_loop``, and any number of threads may use it.

Rules of this file
1. A connection belongs to one transaction at a time, and only to transactions of this sink.
2. A connection on which anything is left open, or not known, is dropped. What was open on it dies with it.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Semaphore, Timer
from types import TracebackType
from typing import Generic, Self

from anyio import fail_after, to_thread

from tenure.errors import ConfigError, OutcomeUnknown, StoreError, Unreachable, UnverifiedToken
from tenure.model import Token
from tenure.sinks.base import Bound, Verify
from tenure.sinks.judging import JudgingSink
from tenure.sinks.refusals import REFUSED
from tenure.sinks.sql.bound_on_thread import BoundOnThread, ThreadTransaction
from tenure.sinks.sql.dialect import Dialect
from tenure.sinks.sql.drivers import ThreadDriver
from tenure.sinks.sql.flow import NO_ANSWER, Flow, Kept, Limits, check_open, ended_too_early
from tenure.sinks.sql.talk import Raw, T, Talk, Trouble, Unfinished, carried_out, checked
from tenure.sinks.verifying import confirmed_now


class ThreadSink(JudgingSink, Generic[Raw]):
    """What all sinks over drivers that block have in common."""

    blocks = True  # as a Mark

    def __init__(
        self, dialect: Dialect, driver: ThreadDriver[Raw], limits: Limits, connections_max: int, verify: Verify | None
    ) -> None:
        super().__init__(verify)
        self.name = driver.address
        self._flow, self.driver = Flow(dialect, limits), driver
        self._room = Semaphore(connections_max)
        self._idle: list[Kept[Raw]] = []
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def bind(self, term: Bound) -> BoundOnThread[Raw]:
        """Return the sink as ``term`` may use it. It fails once that tenure has been succeeded."""
        return BoundOnThread(self, term)

    def transaction(self, term: Bound, isolation: str = "") -> ThreadTransaction[Raw]:
        """Return a transaction whose writes count under ``term``: ``with sink.transaction(term) as connection``.

        It commits at the end, and rolls back on any error. Raises StaleToken, at its beginning or in place of the commit, if a
        larger token was here; nothing was written then. Raises OutcomeUnknown if the commit was sent and no answer came. The
        connection is the sink's own. Do not COMMIT or ROLLBACK inside: what came before would not be fenced.
        """
        return ThreadTransaction(self, term, isolation)

    async def seal(self, fence: str, token: Token) -> None:
        """Raise the fence to ``token`` (see ``Sink``), in a worker thread.

        Waits for transactions that have checked an older token. After ``wait_s`` it has the server end their sessions.
        """
        number = checked(fence, token)
        await self.admitted(fence, number, lambda known_only: self._seal(fence, number, may_raise=not known_only))

    async def _seal(self, fence: str, token: Token, *, may_raise: bool) -> None:
        # Abandoned if it is cancelled: a late seal harms nobody, and a leader that is over must not wait for a lock.
        sealed = partial(self._seal_now, fence, token, may_raise=may_raise)
        try:
            with fail_after(self._flow.limits.seal_s):
                await to_thread.run_sync(sealed, abandon_on_cancel=True)
        except TimeoutError:
            raise OutcomeUnknown(self.name, "seal", NO_ANSWER) from None

    def _seal_now(self, fence: str, token: Token, *, may_raise: bool) -> None:
        check_open(self.name, is_closed=self._is_closed)
        until_s = time.monotonic() + self._flow.limits.seal_s
        kept = self._open("seal", until_s)  # Not one of those that there is a limit of: transactions may have them all.
        helper = Timer(self._flow.limits.wait_ms / 1000, self._end_blockers, (fence,))
        helper.daemon = True
        try:
            if self._flow.dialect.needs_helper:
                helper.start()
            self._say(kept, "seal", self._flow.seal(fence, token, may_raise=may_raise))
        finally:
            helper.cancel()
            self.driver.drop(kept.raw)

    def _end_blockers(self, fence: str) -> None:
        with suppress(StoreError, Trouble):  # If it may not do so, the seal says that it has waited in vain.
            # On a connection of its own: that of the seal waits.
            kept = self._open("seal", time.monotonic() + self._flow.limits.seal_s)
            try:
                self._talk(kept, self._flow.dialect.end_blockers(fence))
            finally:
                self.driver.drop(kept.raw)

    def admit(self, fence: str, token: int, *, known_only: bool = False) -> None:
        """Raise the fence to ``token``, for services and workers that keep their mark here (see ``Mark``).

        A token that the fence stands at costs a read. With ``known_only`` a higher one raises UnverifiedToken.
        """
        number, highest = checked(fence, token), self.highest(fence)
        if known_only and number > highest:
            raise UnverifiedToken(number, highest)
        if number != highest:
            self.admitted_now(fence, number, lambda known: self._seal_now(fence, number, may_raise=not known))

    def highest(self, fence: str) -> int:
        """Return the highest token seen; 0: none. It may be larger by the time that you read it."""
        checked(fence, 1)
        until_s = time.monotonic() + self._flow.limits.answer_s
        kept, highest = self._on_any("read", lambda _: self._flow.highest(fence), until_s)
        self.driver.limit(kept.raw, None)
        return self._freed(kept, highest)

    def set_up(self) -> None:
        """Make the table of fences now, and not when it is first needed. Changes nothing if it is there."""
        self._alone("set up", self._flow.dialect.set_up)

    def install_triggers(self, table: str, *, fence: str) -> None:
        """Let ``table`` accept only what is written under the token that ``fence`` stands at, whoever writes.

        Until the first seal everything is refused. Changes nothing where all is in place, so call it at every start; a table has
        one fence, and installing another takes its place. Raises ConfigError for what is no ordinary table.
        """
        checked(fence, 1)
        self.set_up()
        self._alone("install triggers", lambda: self._flow.dialect.install_triggers(table, fence))

    def remove_triggers(self, table: str) -> None:
        """Let anybody write to ``table`` again. Changes nothing if it has no triggers of ours."""
        self._alone("remove triggers", lambda: self._flow.dialect.remove_triggers(table))

    def fenced_tables(self) -> dict[str, str]:
        """Return the tables that have all their triggers, and the fence of each. To check at start that none was lost."""
        return self._alone("list triggers", self._flow.dialect.fenced_tables)

    def close(self) -> None:
        """Close the connections that are not in use; the others are closed when they have been used."""
        self._is_closed = True
        while (kept := self._taken()) is not None:
            self.driver.close(kept.raw)

    def begin(self, fence: str, token: Token, isolation: str) -> Kept[Raw]:
        """Return a connection on which a transaction is open. It must be given back."""
        # Not a function in here: its annotations would be evaluated with every transaction, which takes longer than all the rest.
        may_raise = self.verify is None
        kept, refusal = self._on_any(
            "begin", lambda kept: self._flow.begin(kept, fence, token, isolation, may_raise=may_raise)
        )
        if refusal is None:
            return kept
        begun = False
        try:
            if not confirmed_now(self.verify, fence, token):
                raise refusal
            self._say(kept, "begin", self._flow.begin(kept, fence, token, isolation, may_raise=True))
            begun = True
        finally:
            if not begun:
                self.give_back(kept)
        return kept

    def finish(self, kept: Kept[Raw], fence: str, token: Token, *, is_inside: bool) -> None:
        """Check the token and commit."""
        if not is_inside:
            # Dropped: who knows what else was done to the session, outside a transaction?
            rule = "must last until its block ends: what was committed inside was not fenced"
            raise ConfigError("transaction", "ended inside", rule)
        failed = None
        if kept.ends_by is not None:
            # By itself and not in a talk: with every transaction, that takes longer than all else that there is to decide.
            try:
                self.driver.ask(kept.raw, kept.ends_by)
            except Trouble as trouble:
                failed = trouble
            else:
                self._flow.sealed[fence] = token
                kept.is_clean = True
                return
        self._finish_otherwise(kept, fence, token, failed)

    def _finish_otherwise(self, kept: Kept[Raw], fence: str, token: Token, failed: Trouble | None) -> None:
        try:
            self._talk(kept, self._flow.finish(fence, token, failed))
            kept.is_clean = True
        except Unfinished as trouble:
            raise ended_too_early() from trouble
        except Trouble as trouble:
            if not trouble.was_sent:
                raise self._flow.dialect.failure(self.name, "commit", trouble) from trouble.__cause__
            # What comes of the caller's own question came before the commit was sent.
            if not trouble.is_callers and not self._flow.dialect.is_definite(trouble):
                raise OutcomeUnknown(self.name, "commit", trouble.text) from trouble.__cause__
            self.undo(kept, trouble, fence, token)
            raise (trouble.__cause__ or trouble) from None  # Such as a constraint that is checked last: the caller's.
        except REFUSED:  # And whatever else is wrong has it dropped: who knows what was done to the session?
            self._roll_back(kept)
            raise

    def undo(self, kept: Kept[Raw], error: Exception, fence: str, token: Token) -> None:
        """Roll back. Raises StaleToken if that is what the error comes down to."""
        trouble = error if isinstance(error, Trouble) else self.driver.trouble(error)
        refusal = None
        with suppress(Trouble):  # Of a connection that is gone, and the transaction with it.
            if trouble is not None:
                self.driver.limit(kept.raw, time.monotonic() + self._flow.limits.answer_s)
                refusal = self._talk(kept, self._flow.explain(trouble, fence, token))
            if self.driver.is_inside(kept.raw):
                self._roll_back(kept)
        if refusal is not None:
            raise refusal from error

    def _roll_back(self, kept: Kept[Raw]) -> None:
        with suppress(Trouble):  # Otherwise it is dropped.
            self.driver.limit(kept.raw, time.monotonic() + self._flow.limits.answer_s)
            self._talk(kept, self._flow.roll_back())
            kept.is_clean = True

    def _alone(self, operation: str, talk: Callable[[], Talk[T]]) -> T:
        return self._freed(*self._on_any(operation, lambda _: talk()))

    def _freed(self, kept: Kept[Raw], answer: T) -> T:
        kept.is_clean = True
        self.give_back(kept)
        return answer

    def _on_any(
        self, operation: str, talk: Callable[[Kept[Raw]], Talk[T]], until_s: float | None = None
    ) -> tuple[Kept[Raw], T]:
        """Carry out a talk that may be repeated, and return the connection with the answer. It must be given back.

        By then at the latest, it is Unreachable; and what else is asked on this connection has that limit, until it is lifted.
        """
        check_open(self.name, is_closed=self._is_closed)
        if not self._room.acquire(timeout=None if until_s is None else max(until_s - time.monotonic(), 0)):
            raise Unreachable(self.name, operation, NO_ANSWER)  # Of those who have all the connections.
        kept: Kept[Raw] | None = None
        done = False
        try:
            # Again: it may have been closed while this waited for room.
            check_open(self.name, is_closed=self._is_closed)
            # One that has died while nobody used it says so when it is used.
            while (kept := self._taken()) is not None:
                kept.is_clean = False
                if not self.driver.is_usable(kept.raw):
                    self.driver.drop(kept.raw)
                    continue
                self.driver.limit(kept.raw, until_s)
                try:
                    answer = self._talk(kept, talk(kept))
                except Trouble as trouble:
                    if until_s is not None and time.monotonic() >= until_s:
                        raise Unreachable(self.name, operation, NO_ANSWER) from trouble.__cause__
                    if trouble.code and not self._flow.dialect.is_ended(trouble):
                        raise self._flow.dialect.failure(self.name, operation, trouble) from trouble.__cause__
                    self.driver.drop(kept.raw)
                    continue
                done = True
                return kept, answer
            kept = self._open(operation, until_s)
            kept.is_clean = False
            answer = self._say(kept, operation, talk(kept))
            done = True
            return kept, answer
        finally:
            if not done:
                self.give_back(kept)

    def _taken(self) -> Kept[Raw] | None:
        try:  # And not a look first: another thread may take it in between.
            return self._idle.pop()
        except IndexError:
            return None

    def _open(self, operation: str, until_s: float | None = None) -> Kept[Raw]:
        try:
            raw = self.driver.open()
            self.driver.limit(raw, until_s)
            kept = Kept(raw, is_own=self.driver.is_own(raw))
        except Trouble as trouble:
            raise self._flow.dialect.failure(self.name, operation, trouble) from trouble.__cause__
        told = False
        try:
            self._say(kept, operation, self._flow.opened(kept))
            told = True
        finally:
            if not told:
                self.driver.drop(kept.raw)
        return kept

    def _say(self, kept: Kept[Raw], operation: str, talk: Talk[T]) -> T:
        try:
            return self._talk(kept, talk)
        except Trouble as trouble:
            raise self._flow.dialect.failure(self.name, operation, trouble) from trouble.__cause__

    def _talk(self, kept: Kept[Raw], talk: Talk[T]) -> T:
        return carried_out(self.driver.ask, kept.raw, talk)

    def give_back(self, kept: Kept[Raw] | None) -> None:
        """Keep a connection for the next one. Whether that can use it is seen then."""
        try:
            if kept is not None and not kept.is_clean:
                self.driver.drop(kept.raw)
            elif kept is not None:
                self._idle.append(kept)
                if self._is_closed:  # Seen now and not before: whoever closes it may have been through with the list.
                    self.close()
        finally:
            self._room.release()  # Last: whoever has room must find the connection.

"""What ledgers in PostgreSQL and in MySQL have in common: their sink for what is fenced, a connection for each of the rest."""

from abc import ABC, abstractmethod
from inspect import isawaitable
from typing import Any, Final

from tenure.apps.ledger.base import Call, Entry, Kind, Statement, T, Told, Words
from tenure.errors import Refused
from tenure.model import Token
from tenure.sinks.base import Bound
from tenure.sinks.sql.dialect import Dialect
from tenure.sinks.sql.drivers import LoopDriver
from tenure.sinks.sql.on_loop import LoopSink
from tenure.sinks.sql.talk import Ask, Trouble, carry_out

NOTHING: Final = Told([], 0)


class ServerLedger(ABC):
    """See ``Ledger``."""

    kind: Kind
    words: Words
    errors: tuple[type[Exception], ...]  # what the driver raises
    commits: bool  # whether its connections commit nothing unless they are told to

    def __init__(self, sink: LoopSink[Any], driver: LoopDriver[Any], dialect: Dialect) -> None:
        self.address = driver.address
        self._sink, self._driver, self._dialect = sink, driver, dialect

    @abstractmethod
    async def asked(self, raw: Any, ask: Ask | Statement) -> Told:
        """Ask the server on a connection of the driver's. What that raises is passed on."""

    async def seal(self, fence: str, token: Token) -> None:
        await self._sink.seal(fence, token)

    async def record(self, term: Bound, entry: Entry[T]) -> T:
        try:
            async with self._sink.transaction(term) as raw:
                return await carry_out(self._heard, raw, entry)
        except self.errors as error:  # What the database checks last, when it is to commit.
            raise Refused(self.address, "record", str(error)) from error
        except Trouble as trouble:
            raise self._dialect.failure(self.address, "record", trouble) from trouble.__cause__

    async def look(self, entry: Entry[T]) -> T | None:
        return await self.ask(entry)

    async def ask(self, entry: Entry[T], *, one_by_one: bool = False) -> T:
        raw: Any = None
        try:
            raw = await self._driver.open()
            if not one_by_one:
                await self._driver.ask(raw, Ask("BEGIN"))
            done = await carry_out(self._heard, raw, entry)
            if self.commits or not one_by_one:
                await self._driver.ask(raw, Ask("COMMIT"))
        except Trouble as trouble:
            raise self._dialect.failure(self.address, "ask", trouble) from trouble.__cause__
        else:
            return done
        finally:
            entry.close()
            if raw is not None:
                self._driver.drop(raw)  # What was left open on it dies with it.

    async def close(self) -> None:
        await self._sink.close()
        await self._driver.settle()

    async def _heard(self, raw: Any, ask: Ask | Statement | Call) -> Told:
        try:
            if not isinstance(ask, Call):
                return await self.asked(raw, ask)
            result = ask.work(raw)
            if isawaitable(result):
                await result
        except self.errors as error:
            trouble = self._driver.trouble(error)
            if trouble is None or (
                trouble.code and not isinstance(ask, Ask)
            ):  # Somebody else's statement, so it is told as it is.
                raise Refused(self.address, "record", trouble.text if trouble else str(error)) from error
            raise trouble from error
        return NOTHING

"""What the fences of PostgreSQL and of MySQL have in common: one connection, one talk, and what is said if it fails."""

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any, Final

from tenure.errors import OutcomeUnknown, Refused, StoreError, Unreachable
from tenure.sinks.repairing import Fences, Repair
from tenure.sinks.sql.dialect import Dialect
from tenure.sinks.sql.drivers import LoopDriver
from tenure.sinks.sql.talk import T, Talk, Trouble, carry_out

# As long as a seal waits for transactions that have checked their token. Writers queue behind whoever waits, so no longer.
WAIT_MS: Final = 2000
_WITHIN_S: Final = 20.0
KEPT: Final = (
    "a transaction that has checked its token keeps the fence: stop that leader, or try again when it has ended"
)


class SqlFences(ABC):
    """See ``Mendable``."""

    def __init__(self, driver: LoopDriver[Any], dialect: Dialect) -> None:
        self.name, self.dialect = driver.address, dialect
        self._driver = driver

    def look(self) -> Fences:
        return asyncio.run(self._said("read", self.looked()))

    def lower(self, repair: Repair) -> None:
        asyncio.run(self._said("repair", self.lowered(repair)))

    @abstractmethod
    def looked(self) -> Talk[Fences]:
        """Read all fences."""

    @abstractmethod
    def lowered(self, repair: Repair) -> Talk[None]:
        """Compare, lower and record, under the lock that a seal takes."""

    @abstractmethod
    def explained(self, trouble: Trouble) -> str:
        """Return what trouble means to whoever mends a fence; empty: the same as to a sink."""

    async def _said(self, operation: str, talk: Talk[T]) -> T:
        raw: Any = None
        try:
            async with asyncio.timeout(_WITHIN_S):
                raw = await self._driver.open()
                return await carry_out(self._driver.ask, raw, talk)
        except TimeoutError:
            kind = Unreachable if raw is None or operation == "read" else OutcomeUnknown
            raise kind(self.name, operation, "no answer in time") from None
        except Trouble as trouble:
            raise self._failure(operation, trouble) from trouble.__cause__
        finally:
            talk.close()
            if raw is not None:
                await self._ended(raw)

    async def _ended(self, raw: Any) -> None:
        self._driver.drop(raw)  # What was left open on it dies with it.
        with suppress(TimeoutError):
            async with asyncio.timeout(_WITHIN_S):
                await self._driver.settle()

    def _failure(self, operation: str, trouble: Trouble) -> StoreError:
        text = self.explained(trouble)
        return Refused(self.name, operation, text) if text else self.dialect.failure(self.name, operation, trouble)

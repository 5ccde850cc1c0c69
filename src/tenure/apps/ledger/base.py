"""What every ledger promises. What is recorded is said once for all databases, as entries.

An *entry* is a generator: it yields what to ask, is sent what was told, and returns what came of it. It does no IO, so one text
serves a database that blocks and databases that await. In its SQL a ``?`` stands for each parameter, and nothing else may.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from tenure.model import Token
from tenure.sinks.base import Bound
from tenure.sinks.sql.talk import Ask

T = TypeVar("T")
Kind = Literal["sqlite", "postgresql", "mysql"]
Value = int | str | None


class Statement(NamedTuple):
    """One statement of somebody else's, as it stands: a ``?`` in it is its own."""

    sql: str


class Call(NamedTuple):
    """Something to be called with the driver's own connection: by a server's driver it may have to be awaited, by SQLite's not."""

    work: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Told:
    """What one statement came to: the rows of a SELECT; of anything else, how many rows it changed."""

    rows: list[tuple[Value, ...]]
    count: int


Entry = Generator[Ask | Statement | Call, Told, T]


class Words(NamedTuple):
    """How a database calls what tables are made of."""

    key: str  # a text of up to 255 characters that may be a part of a key, and is compared to the letter
    text: str  # of any length
    number: str  # of 64 bits
    kept: str  # what stands behind the columns of a table that has transactions


class Ledger(Protocol):
    """A database that refuses what a leader that was succeeded records. It is a sink: declare it, and it is sealed."""

    kind: Kind
    address: str  # without secrets
    words: Words

    async def seal(self, fence: str, token: Token) -> None:
        """See ``Sink``."""
        ...

    async def record(self, term: Bound, entry: Entry[T]) -> T:
        """Carry out an entry as one fenced transaction, and return what it returns.

        Raises StaleToken if the tenure was succeeded, OutcomeUnknown if the commit was sent and not answered, and another StoreError
        if it was not recorded. What the entry raises rolls back.
        """
        ...

    async def look(self, entry: Entry[T]) -> T | None:
        """Carry out an entry that only reads; None if there is no database. Nobody who writes keeps it waiting, where the database allows."""
        ...

    async def ask(self, entry: Entry[T], *, one_by_one: bool = False) -> T:
        """Carry out an entry as one transaction of nobody's: to make tables, and for people who ask for something.

        It is not fenced. Nothing that only a leader may do belongs here. MySQL commits what makes a table at once. With
        ``one_by_one`` there is no transaction, and each statement counts by itself.
        """
        ...

    async def close(self) -> None:
        """Close the connections. The ledger cannot be used again."""
        ...

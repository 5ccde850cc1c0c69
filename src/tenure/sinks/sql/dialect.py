"""What a kind of server must be able to say, for a sink to be made of it."""

from typing import Any, NamedTuple, Protocol

from tenure.errors import StoreError, TenureError
from tenure.sinks.sql.talk import Ask, Rows, Talk, Trouble

Worded = tuple[str, dict[str, Any]]


class Opening(NamedTuple):
    """How a transaction is to begin. Isolation, empty: as the server does. Presented: what this connection has shown last.

    ``is_own``: the session is the sink's alone, and was told its limits when it was opened.
    """

    isolation: str
    fence: str
    token: int
    presented: tuple[str, int]
    idle_ms: int
    is_own: bool


class Unready(Exception):
    """The table of fences is not there yet."""


class Dialect(Protocol):
    """One kind of server. A talk raises StaleToken or UnverifiedToken for a refusal, Unready where nothing is set up.

    What else went wrong stays a Trouble, and ``failure`` says what that means.
    """

    def settings(self, idle_ms: int, *, is_own: bool) -> Talk[None]:
        """Tell a new connection what it must know. If its session is shared through a pooler, nothing of ours may stay in it."""
        ...

    def set_up(self) -> Talk[None]:
        """Make the table of fences unless it is there, whoever else does so at the same time."""
        ...

    def begin(self, opening: Opening) -> list[Ask]:
        """Begin a transaction that shows its token to triggers, and is ended by the server when it is idle."""
        ...

    def admit(self, fence: str, token: int, *, may_raise: bool) -> Talk[None]:
        """Check the token in the transaction that is open, under a lock that it keeps to its end.

        A token that the fence stands at shares the lock, and writes nothing. A higher one, if it may, raises the fence.
        """
        ...

    def end(self, fence: str, token: int) -> Ask | None:
        """Return what checks the token, which must have been sealed, and commits, as one question; None: there is no such."""
        ...

    def finish(self, fence: str, token: int, failed: Trouble | None) -> Talk[None]:
        """Check and commit where there is no such, or say what it means that it failed."""
        ...

    def seal(self, fence: str, token: int, wait_ms: int, *, may_raise: bool) -> Talk[None]:
        """Raise the fence in a transaction of its own. Whoever keeps it from that for so long has its session ended."""
        ...

    needs_helper: bool  # Whether a seal cannot end by itself whoever keeps it waiting.

    def end_blockers(self, fence: str) -> Talk[None]:
        """End, from another connection, the sessions that a seal has been waiting for."""
        ...

    def highest(self, fence: str) -> Talk[int]:
        """Return the highest token seen; 0: none."""
        ...

    def install_triggers(self, table: str, fence: str) -> Talk[None]:
        """Let a table accept only what is written under the token that the fence stands at."""
        ...

    def remove_triggers(self, table: str) -> Talk[None]:
        """Let anybody write to a table again."""
        ...

    def fenced_tables(self) -> Talk[dict[str, str]]:
        """Return the tables that have all their triggers, and the fence of each."""
        ...

    def engine_words(self, fence: str, token: int) -> tuple[Worded, Worded]:
        """Return what SQLAlchemy executes first in a transaction, to present the token, and last, to check it."""
        ...

    def judge(self, rows: Rows, fence: str, token: int) -> None:
        """Judge the answer to the second of these."""
        ...

    def refusal(self, trouble: Trouble) -> TenureError | None:
        """Return what a trigger, or a check of the caller's, has said, if that is what the trouble is."""
        ...

    def is_conflict(self, trouble: Trouble) -> bool:
        """Say whether a transaction failed since its view is too old, which may be because of a seal."""
        ...

    def is_definite(self, trouble: Trouble) -> bool:
        """Say whether the server's words prove that the commit did not take place."""
        ...

    def is_ended(self, trouble: Trouble) -> bool:
        """Say whether the server has ended the session, which of one that was idle says nothing of what was asked."""
        ...

    def failure(self, name: str, operation: str, trouble: Trouble) -> StoreError:
        """Return what a caller is told."""
        ...

"""What a driver must be able to do, for a sink to be made of it. Its errors become Trouble, there and nowhere else."""

from typing import Protocol

from tenure.sinks.sql.talk import Ask, Raw, Rows, Trouble


class LoopDriver(Protocol[Raw]):
    """One driver that awaits. Its errors become Trouble, here and nowhere else."""

    address: str

    async def open(self) -> Raw:
        """Open a connection."""
        ...

    async def ask(self, raw: Raw, ask: Ask) -> Rows:
        """Ask the server. A statement without parameters may be several, and needs to return nothing."""
        ...

    def postpone(self, raw: Raw, asks: list[Ask], idle_s: float) -> Raw | None:
        """Lend it, and have a transaction begin by these with the first statement of the caller's, in one message. None: ask them now.

        None as well if it may not be used again (``is_usable``), or has died in the time for which it was idle.
        """
        ...

    def lend(self, raw: Raw) -> Raw:
        """Return what a block is given of it (see ``lending``)."""
        ...

    def end(self, raw: Raw, lent: Raw) -> bool:
        """Have what a block was given of it say nothing any more: whatever is said next is the sink's. Returns ``is_inside``."""
        ...

    def is_own(self, raw: Raw) -> bool:
        """Say whether its session is ours alone, and no pooler shares it with others."""
        ...

    def is_inside(self, raw: Raw) -> bool:
        """Say whether a transaction is open."""
        ...

    def is_usable(self, raw: Raw) -> bool:
        """Say whether it may be used again: it is open as far as anybody knows, and no transaction is."""
        ...

    def trouble(self, error: BaseException) -> Trouble | None:
        """Return what an error of this driver says; None: it is not of this driver."""
        ...

    async def close(self, raw: Raw) -> None:
        """Say goodbye to the server."""
        ...

    def drop(self, raw: Raw) -> None:
        """Let go of it without waiting for anything."""
        ...

    async def settle(self) -> None:
        """Wait until what was dropped is gone."""
        ...


class ThreadDriver(Protocol[Raw]):
    """One driver that blocks. Its errors become Trouble, here and nowhere else."""

    address: str

    def open(self) -> Raw:
        """Open a connection."""
        ...

    def ask(self, raw: Raw, ask: Ask) -> Rows:
        """Ask the server. A statement without parameters may be several, and needs to return nothing."""
        ...

    def limit(self, raw: Raw, until_s: float | None) -> None:
        """Have whatever is asked fail if it was not answered by then, on ``time.monotonic``; None: wait, as the caller has set it."""
        ...

    def lend(self, raw: Raw) -> Raw:
        """Return what a block is given of it (see ``lending``)."""
        ...

    def end(self, raw: Raw, lent: Raw) -> bool:
        """Have what a block was given of it say nothing any more: whatever is said next is the sink's. Returns ``is_inside``."""
        ...

    def is_own(self, raw: Raw) -> bool:
        """Say whether its session is ours alone, and no pooler shares it with others."""
        ...

    def is_inside(self, raw: Raw) -> bool:
        """Say whether a transaction is open."""
        ...

    def is_usable(self, raw: Raw) -> bool:
        """Say whether it may be used again: it is open as far as anybody knows, and no transaction is."""
        ...

    def trouble(self, error: BaseException) -> Trouble | None:
        """Return what an error of this driver says; None: it is not of this driver."""
        ...

    def close(self, raw: Raw) -> None:
        """Say goodbye to the server."""
        ...

    def drop(self, raw: Raw) -> None:
        """Let go of it at once."""
        ...

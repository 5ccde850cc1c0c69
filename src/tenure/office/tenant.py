"""Who sits on a seat: what the office asks of the side on which the user called."""

from typing import Protocol

from tenure.model import Token
from tenure.office.term import Term


class Tenant(Protocol):
    """Who sits on the seat. Every method is called on the office's thread and must return at once."""

    def seal(self, attempt: int, token: Token) -> None:
        """Raise the fence of every declared sink, then feed Sealed, Deposed or Failed."""
        ...

    def start(self, term: Term) -> None:
        """Run the body, and feed BodyEnded when it is over."""
        ...

    def stop(self, term: Term) -> None:
        """Cancel the body until it ends."""
        ...

    def look_after(self) -> None:
        """A renewal is due: if nobody will ever report the end of the body, since its event loop is closed, report it."""
        ...

    def evicted(self) -> None:
        """The store is being closed: whatever comes of it, the caller must be told why."""
        ...

    def wait(self) -> None:
        """Another is in office, or before this one in the queue: it may take long."""
        ...

    def idle(self) -> None:
        """The candidate no longer stands, and what it held has been released."""
        ...

"""A connection as one block has it, and not afterwards.

A task or a thread that a block has started may outlive it: ``asyncio.gather`` raises the first error and lets the others go on. What
such a one says then would be committed by itself, or in the transaction of whoever has the connection next, and no token was checked
for it. So a block is given an object of its own, over the state of the connection, and so are its cursors. When the block ends, that
object becomes one of a class which says nothing to the server. The sink speaks through the connection itself.
"""

from typing import Final, TypeVar

from tenure.errors import ConfigError

Connection = TypeVar("Connection")

_RULE: Final = "must be used inside its block only: what it wrote now would not be fenced"


def lend(raw: Connection) -> Connection:
    """Return another object over the same state: what either of them sets, both have."""
    lent: Connection = object.__new__(type(raw))
    lent.__dict__ = raw.__dict__
    return lent


def end(lent: object, over: type) -> None:
    """Make it one that is ``over``. What was read stays; what is set on it from now on is nobody else's."""
    lent.__dict__ = dict(lent.__dict__)
    lent.__class__ = over


def used_late() -> ConfigError:
    """Return what whoever uses a connection after its block is told."""
    return ConfigError("connection", "used after its transaction", _RULE)

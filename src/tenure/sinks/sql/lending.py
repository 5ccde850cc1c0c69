"""A connection as one block has it, and not afterwards.

A task or a thread that a block has started may outlive it: ``asyncio.gather`` raises the first error and lets the others go on. What
such a one says then would be committed by itself, or in the transaction of whoever has the connection next, and no token was checked
for it. So a block is given an object of its own, which has the state of the connection meanwhile, and so are its cursors. When the block
ends, that object gives the state back, and becomes one of a class which says nothing to the server. The sink speaks through the
connection itself.

What was asked before the end, and was not answered by then, is for the drivers to tell from what the sink asks: see each of them.
"""

from functools import cache
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final, TypeVar

from tenure.errors import ConfigError

Connection = TypeVar("Connection")

_FIELD: Final = (GetSetDescriptorType, MemberDescriptorType)
_RULE: Final = "must be used inside its block only: what it wrote now would not be fenced"


def lend(raw: Connection) -> Connection:
    """Return another object with the state of this one, which must not be used until that one is at its end."""
    lent: Connection = type(raw).__new__(type(raw))
    _move(raw, lent)
    return lent


def end(raw: object, lent: object, over: type) -> None:
    """Give the state back, and make ``lent`` one that is ``over``. What was read stays; what is set on it is nobody else's."""
    raw.__dict__.clear()
    _move(lent, raw)
    lent.__class__ = over


def _move(source: Any, target: Any) -> None:
    target.__dict__.update(source.__dict__)
    kind: Any = type(source)
    for name in _fields_of(kind):
        setattr(target, name, getattr(source, name))


@cache
def _fields_of(kind: type) -> tuple[str, ...]:
    """Return what objects of this class have beside their ``__dict__``: those of a compiled class, as asyncmy's is from 0.2.18 on."""
    fields = {name for each in kind.__mro__ for name, what in vars(each).items() if isinstance(what, _FIELD)}
    return tuple(sorted(fields - {"__dict__", "__weakref__", "__class__"}))


def used_late() -> ConfigError:
    """Return what whoever uses a connection after its block is told."""
    return ConfigError("connection", "used after its transaction", _RULE)

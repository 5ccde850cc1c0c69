"""What is said to a server, apart from who says it.

A *talk* is a generator: it yields what to ask, is sent the rows or thrown the trouble, and returns what came of it. It does
no IO, so drivers that block and drivers that await share every decision.
"""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Literal, NamedTuple, TypeVar

from tenure.errors import ConfigError
from tenure.model import Token, token

T = TypeVar("T")
Raw = TypeVar("Raw")  # a connection, as its driver has it
Rows = list[tuple[Any, ...]]

_FENCE_BYTES_MAX = 1000  # What every server can have as a key.


class Ask(NamedTuple):
    """One statement. Without parameters it may be several, which a server carries out until one of them fails."""

    sql: str
    parameters: tuple[Any, ...] = ()
    turn: Literal["", "begin", "end"] = ""  # what it does to the transaction, which some drivers want to be told


class Trouble(Exception):
    """What a driver said: the server's ``code`` (an SQLSTATE or a number; empty: it said nothing), and its words.

    ``was_sent`` is false if the request cannot have reached the server. ``is_callers``: it is the answer to something that the caller had
    asked, and that came out now.
    """

    def __init__(self, code: str, text: str, *, was_sent: bool = True, is_callers: bool = False) -> None:
        self.code, self.text, self.was_sent, self.is_callers = code, text, was_sent, is_callers
        super().__init__(code, text)


class Unfinished(Trouble):
    """Nothing was asked: something that was begun on this connection has not ended, and its answer could be taken for another."""

    def __init__(self) -> None:
        super().__init__("", "another operation is in progress on this connection", was_sent=False)


Talk = Generator[Ask, Rows, T]
Asked = TypeVar("Asked")  # what a talk yields: an Ask, or more than that
Heard = TypeVar("Heard")  # and what it is sent for it


def carried_out(ask: Callable[[Raw, Asked], Heard], raw: Raw, talk: Generator[Asked, Heard, T]) -> T:
    """Carry out a talk with a driver that blocks."""
    try:
        due = next(talk)
        while True:
            try:
                heard = ask(raw, due)
            except Trouble as trouble:
                due = talk.throw(trouble)
            else:
                due = talk.send(heard)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        talk.close()


async def carry_out(ask: Callable[[Raw, Asked], Awaitable[Heard]], raw: Raw, talk: Generator[Asked, Heard, T]) -> T:
    """Carry out a talk with a driver that awaits."""
    try:
        due = next(talk)
        while True:
            try:
                heard = await ask(raw, due)
            except Trouble as trouble:
                due = talk.throw(trouble)
            else:
                due = talk.send(heard)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        talk.close()


def checked(fence: str, number: int) -> Token:
    """Return ``number`` as a token of ``fence``. Raises ConfigError for what can be neither."""
    if not fence or "\0" in fence:
        raise ConfigError("fence", repr(fence), "must have a name, without a NUL in it")
    # No character has more than four bytes: most names need not be counted.
    if len(fence) > _FENCE_BYTES_MAX // 4 and len(fence.encode("utf-8", "surrogatepass")) > _FENCE_BYTES_MAX:
        raise ConfigError("fence", f"{fence[:40]}…", f"must have a name of up to {_FENCE_BYTES_MAX} bytes")
    return token(number)

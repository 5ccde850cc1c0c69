"""How a thread answers an event loop: through a future, in which an error travels as a value.

A future that holds an exception which nobody collects, because its task was cancelled in the same turn, would be
reported as a mistake of ours.
"""

from asyncio import AbstractEventLoop, Future, get_running_loop
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import TypeAlias

from tenure.errors import TenureError

Reply: TypeAlias = Future[object]


def new_reply() -> Reply:
    """Return what a coroutine of this event loop can wait for, with ``outcome_of``."""
    return get_running_loop().create_future()


async def outcome_of(reply: Reply) -> object:
    """Wait for a reply and return its value, or raise the error that it is."""
    outcome = await reply
    if isinstance(outcome, TenureError):
        raise outcome
    return outcome


def give(reply: Reply, outcome: object) -> None:
    """Answer, from any thread. Only the first answer counts."""
    give_all([(reply, outcome)])


def give_all(outcomes: Iterable[tuple[Reply, object]]) -> None:
    """Answer many at once, from any thread: each event loop is woken once."""
    by_loop: defaultdict[AbstractEventLoop, list[tuple[Reply, object]]] = defaultdict(list)
    for answer in outcomes:
        by_loop[answer[0].get_loop()].append(answer)
    for loop, its_own in by_loop.items():
        with suppress(RuntimeError):  # The loop was closed, so nobody waits.
            loop.call_soon_threadsafe(_settle, its_own)


def _settle(outcomes: list[tuple[Reply, object]]) -> None:
    for reply, outcome in outcomes:
        if not reply.done():
            reply.set_result(outcome)

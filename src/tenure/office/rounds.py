"""Renewals that fall due together go out together, as one request to a store that can take them so.

Every request of a round is sent after the step that asked for it, so each is dated by its own step (rule 1).
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, TypeVar

from tenure.errors import OutcomeUnknown
from tenure.model import Ended, Grant
from tenure.stores.base import CanRenewTogether, No, Ok, Store, Unknown, outcome_of

T = TypeVar("T")
Renewal = Ok[Grant | Ended] | No | Unknown


class Asked(NamedTuple):
    """One renewal, and who waits for its outcome."""

    grant: Grant
    reply: Callable[[Renewal], None]


class Rounds:
    """Collects renewals for as long as it takes the event loop to come round. Used on one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._next: dict[tuple[int, int], tuple[CanRenewTogether, list[Asked]]] = {}
        self._under_way: set[asyncio.Task[None]] = set()

    def add(self, store: CanRenewTogether, within_ns: int, asked: Asked) -> None:
        """Renew with the next round."""
        if not self._next:
            self._loop.call_soon(self._send)
        self._next.setdefault((id(store), within_ns), (store, []))[1].append(asked)

    def _send(self) -> None:
        rounds, self._next = self._next, {}
        for (_, within_ns), (store, asked) in rounds.items():
            task = self._loop.create_task(_renew(store, within_ns, asked))
            self._under_way.add(task)
            task.add_done_callback(partial(self._done, store, asked))

    def _done(self, store: CanRenewTogether, asked: list[Asked], task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            told_of_broken_store(self._loop, error)
            for one in asked:
                one.reply(broken("renew", store))


async def _renew(store: CanRenewTogether, within_ns: int, asked: list[Asked]) -> None:
    grants = [one.grant for one in asked]
    outcome = await outcome_of(in_time(store, within_ns, "renew", store.renew_together(grants)))
    if isinstance(outcome, Ok):
        for one, answer in zip(asked, outcome.value, strict=True):
            one.reply(Ok(answer))
    else:
        for one in asked:
            one.reply(outcome)


async def in_time(store: Store, within_ns: int, operation: str, call: Coroutine[Any, Any, T]) -> T:
    """Await a store's call; one that takes too long has no known outcome."""
    try:
        async with asyncio.timeout(within_ns / 1e9):
            return await call
    except TimeoutError as late:
        raise OutcomeUnknown(store.address, operation, "no answer in time") from late


def told_of_broken_store(loop: asyncio.AbstractEventLoop, error: BaseException) -> None:
    """Report a store that raised something other than StoreError. Nothing can be known of what it did (rule 7)."""
    loop.call_exception_handler({"message": "a store broke its contract", "exception": error})


def broken(operation: str, store: Store) -> Unknown:
    """Return all that is known of a request to a store that broke its contract."""
    return Unknown(OutcomeUnknown(store.address, operation, "the store broke its contract"))

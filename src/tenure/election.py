"""The public face of an election: stand, lead, observe."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import anyio

from tenure.errors import ConfigError, Reason, TenureOver
from tenure.model import Holder, Incumbent
from tenure.office.desk import Desk, Hook
from tenure.office.hooks import log_fact
from tenure.office.opened import OpenStore, run_there
from tenure.office.sitting import Sitting
from tenure.office.tenure import Tenure
from tenure.office.thread import Office
from tenure.sinks.base import Sink
from tenure.stores.base import Store
from tenure.timing import Seconds, Timing

if TYPE_CHECKING:
    from tenure.office.seat import Term

T = TypeVar("T")
NAME_BYTES_MAX: Final = 255  # What the narrowest engine takes as one part of a path.
# How often an observer looks, as a share of the heartbeat: a change of leader takes a heartbeat or more to happen.
_LOOKS_PER_HEARTBEAT: Final = 4


def check_name(name: object) -> str:
    """Return ``name`` if every engine can have an election of that name."""
    if not isinstance(name, str) or not name:
        raise ConfigError("election", repr(name), "must be a name of at least one character")
    if len(name.encode("utf-8", "replace")) > NAME_BYTES_MAX:
        raise ConfigError("election", f"{name[:20]}…", f"must have at most {NAME_BYTES_MAX} bytes")
    if not name.isprintable() or name != name.strip():
        raise ConfigError("election", repr(name), "must be printable, without space at its ends")
    if any(part in {"", ".", ".."} for part in name.split("/")):
        raise ConfigError("election", repr(name), "must have no empty part, '.' or '..' between its slashes")
    return name


class Election:
    """One candidate of one election.

    Promises that at most one tenure is valid at any instant while clocks keep their bound, and that whatever is written
    through a declared sink is the latest leader's, whatever clocks do. Does not promise that there is a leader, nor that
    a body stops when it is cancelled: one that does not is published as an Overstay, or with ``on_overstay="kill"`` ends
    the process.
    """

    def __init__(  # noqa: PLR0913  (each has a default but the first two)
        self,
        store: OpenStore | Store,
        name: str,
        *,
        ttl: Seconds | None = None,
        timing: Timing | None = None,
        holder: Holder | None = None,
        hooks: Sequence[Hook] = (),
        on_overstay: Literal["publish", "kill"] = "publish",
    ) -> None:
        if ttl is not None and timing is not None:
            raise ConfigError("ttl", ttl, "is part of timing: give one of the two")
        if on_overstay not in ("publish", "kill"):
            raise ConfigError("on_overstay", on_overstay, "must be 'publish' or 'kill'")
        self.name = check_name(name)
        self.timing = timing if timing is not None else Timing.of(ttl=ttl)
        self.holder = Holder.fresh() if holder is None else holder
        self._office = store.office if isinstance(store, OpenStore) else Office.of_this_process()
        self._given = store
        self._hooks = (log_fact, *hooks)
        self._kill = on_overstay == "kill"
        self._desk: Desk | None = None

    def desk(self) -> Desk:
        """What a candidate of this election sits at. One for the life of this object: it knows whether it is taken."""
        if self._desk is None:
            self._desk = Desk(self._office, self._store, self.name, self.holder, self.timing, self._hooks, self._kill)
        return self._desk

    @property
    def _store(self) -> Store:
        self._office.check_process("election")
        return self._given.store if isinstance(self._given, OpenStore) else self._given

    async def lead(
        self,
        body: Callable[[Tenure], Awaitable[T]],
        *,
        sinks: Sequence[Sink] = (),
        prepare: Callable[[], Awaitable[object]] | None = None,
        once: bool = False,
    ) -> T:
        """Stand, and run ``body`` in every tenure until it returns; return what it returned.

        Loss cancels the body at every await until it has ended; then this candidate stands again (``once``: raises
        TenureOver). An exception of the body releases the office and is raised unchanged. ``prepare`` is awaited before
        standing: who is not ready does not stand. ``sinks`` are sealed before every body begins.
        """
        if prepare is not None:
            await prepare()
        return await Sitting[T](self.desk(), sinks).lead(body, once=once)

    def once(self, sinks: Sequence[Sink] = ()) -> AbstractAsyncContextManager[Tenure]:
        """Return a context manager that takes office once, with its block as the body.

        Loss cancels the block, and TenureOver is raised at its end.
        """
        return _Once(self.desk, sinks)

    async def incumbent(self) -> Incumbent | None:
        """Return who holds the office now, as the engine decides it. It may have changed when you read this."""
        result: Incumbent | None = await run_there(self._office, self._store.read(self.name))
        return result

    async def observe(self) -> AsyncIterator[Incumbent | None]:
        """Yield who holds the office, now and whenever that changes. May miss a leader who was there for a moment."""
        pause_s = self.timing.renew_every_ns / 1e9 / _LOOKS_PER_HEARTBEAT
        seen: object = self
        while True:
            incumbent = await self.incumbent()
            if incumbent != seen:
                seen = incumbent
                yield incumbent
            await anyio.sleep(pause_s)

    def leader_only(
        self, *, sinks: Sequence[Sink] = ()
    ) -> Callable[[Callable[[Tenure], Awaitable[T]]], Callable[[], Awaitable[T]]]:
        """Return a decorator: the function becomes the body, and calling it stands for election and leads."""

        def decorate(body: Callable[[Tenure], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
            @wraps(body)
            async def stand() -> T:
                return await self.lead(body, sinks=sinks)

            return stand

        return decorate


class _Once(AbstractAsyncContextManager[Tenure]):
    """``Election.once``: the block is the body. Made by hand, because a task group would wrap the block's exception."""

    def __init__(self, desk: Callable[[], Desk], sinks: Sequence[Sink]) -> None:
        self._desk, self._sinks = desk, sinks

    async def __aenter__(self) -> Tenure:
        desk = self._desk()
        self._sitting = Sitting[None](desk, self._sinks)
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._term: Term | None = None
        try:
            self._term = await self._sitting.wait_for_office(self._tasks)
        finally:
            if self._term is None:
                await self._sitting.leave()
                self._tasks.cancel_scope.cancel()
                await self._tasks.__aexit__(*sys.exc_info())
        self._scope = anyio.CancelScope()
        self._tasks.start_soon(self._sitting.watch_over, self._scope)
        self._scope.__enter__()
        return self._sitting.tenure(self._term)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        assert self._term is not None, "left without having entered"
        self._scope.__exit__(kind, error, traceback)
        self._sitting.body_over(self._term, stand_again=False)
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)
        finally:
            await self._sitting.leave()
        if self._scope.cancelled_caught:
            raise TenureOver(self._term.token, self._term.reason or Reason.LAPSED)
        return False

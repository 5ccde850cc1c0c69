"""An open store, as the user holds it: a handle from where the user called to a store on the office's loop."""

from collections.abc import Coroutine
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self, cast

import anyio

from tenure.errors import ConfigError
from tenure.model import Document
from tenure.office.thread import Office
from tenure.office.updating import WITHIN_S, Change, Known, flow_of, proceed, read
from tenure.stores.base import Store
from tenure.stores.opening import default_ttl_s, make_store
from tenure.timing import Seconds


class OpenStore:
    """A store that is opened by ``async with`` or ``with``, and closed at its end. Safe to share between threads."""

    def __init__(self, url: str, *, accept_best_effort: bool = False, **options: Any) -> None:
        self._unopened = make_store(url, options, accept_best_effort=accept_best_effort)
        self._made_of = url, accept_best_effort, options  # It may hold secrets, and is never shown.
        self.ttl_s = default_ttl_s(url)  # of elections that do not say; None: as anywhere
        self._stack: AsyncExitStack | None = None
        self._store: Store | None = None
        self._known = Known()
        self.office = Office.of_this_process()

    @property
    def store(self) -> Store:
        """The store itself, which may be used on the office's loop only."""
        self.office.check_process("store")
        if self._store is None:
            raise ConfigError("store", "not open", "use it inside 'async with tenure.open_store(…) as store'")
        return self._store

    def another(self) -> Self:
        """Return a store for the same engine with connections of its own, not open yet. In memory that is another engine.

        It is for work that renewals must not wait behind: of a database a store has one connection, for one thing at a time.
        """
        url, accept_best_effort, options = self._made_of
        return type(self)(url, accept_best_effort=accept_best_effort, **options)

    async def __aenter__(self) -> Self:
        opened = False
        try:
            await run_there(self.office, self._open())
            opened = True
        finally:
            if not opened:  # It may have been cancelled just when it was open.
                await self.__aexit__()
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await run_there(self.office, self._close())

    def __enter__(self) -> Self:
        wait_there(self.office, self._open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        wait_there(self.office, self._close())

    async def _open(self) -> None:
        stack = AsyncExitStack()
        enter = getattr(self._unopened, "__aenter__", None)
        self._store = cast("Store", await stack.enter_async_context(self._unopened) if enter else self._unopened)
        self._stack = stack
        self.office.on_close(self, self._close)

    async def _close(self) -> None:
        stack, self._stack, store, self._store = self._stack, None, self._store, None
        self.office.on_close(self, None)
        if stack is not None:
            async with stack:  # Also if this is cancelled while somebody takes time to leave.
                await self.office.vacate(store)


class LoopStore(OpenStore):
    """An open store whose documents are awaited on an event loop, asyncio's or trio's."""

    async def document(self, key: str) -> Document | None:
        """Return what is kept under ``key`` now, as the engine decides it; None: nothing was ever written there."""
        found: Document | None = await self._ask(read(self.store, key))
        return found

    async def update(self, key: str, fn: Change, *, within: Seconds = WITHIN_S) -> bytes:
        """Replace what is kept under ``key`` by what ``fn`` makes of it, and return that. Needs no leader, only a version.

        ``fn`` gets the value (None: nothing was ever written there) and returns the new one, at most 256 KiB of bytes; returning
        what it was given writes nothing. It is called here, first with what this process has last seen, and again whenever somebody else has written
        meanwhile: it must have no effects of its own. What it raises when shown what is there now is raised, and nothing is written.

        The change is made once or not at all, also if an answer of the engine is lost. Raises OutcomeUnknown if that cannot
        be found out ``within`` that time, or if this is cancelled while it writes; Contended if others came first every time;
        StoreError of another kind if the engine could not be asked: then nothing was written. Nothing is promised about who
        comes first, nor about two keys at once, nor of documents that are deleted by hand or brought back from a copy.
        """
        flow = flow_of(self.store, key, fn, within, self._known)
        asked, value = proceed(flow, None)
        while asked is not None:
            asked, value = proceed(flow, await self._ask(asked))
        return value

    async def _ask(self, asked: Coroutine[Any, Any, Any]) -> Any:
        """Await what is asked of the store, on the office's loop unless the store says that any loop will do."""
        from tenure.office.mailbox import on_trio  # noqa: PLC0415

        if getattr(self.store, "documents_on_any_loop", False) and not on_trio():
            return await asked
        return await run_there(self.office, asked)


class ThreadStore(OpenStore):
    """The same for threads: ``tenure.sync``."""

    def document(self, key: str) -> Document | None:
        """Return what is kept under ``key`` now, as the engine decides it; None: nothing was ever written there."""
        found: Document | None = wait_there(self.office, read(self.store, key))
        return found

    def update(self, key: str, fn: Change, *, within: Seconds = WITHIN_S) -> bytes:
        """Replace what is kept under ``key`` by what ``fn`` makes of it, as ``tenure.open_store(…).update`` does."""
        flow = flow_of(self.store, key, fn, within, self._known)
        asked, value = proceed(flow, None)
        while asked is not None:
            asked, value = proceed(flow, wait_there(self.office, asked))
        return value


def open_store(url: str, *, accept_best_effort: bool = False, **options: Any) -> LoopStore:
    """Return a store for ``url``, to be opened by ``async with`` or ``with``. Does not reach for the engine before that.

    Raises ConfigError for an unknown scheme, a client that is not installed, or a URL that cannot be one; and for a store
    that is best effort, which cannot keep all that stores promise, unless ``accept_best_effort`` says that this will do.
    """
    return LoopStore(url, accept_best_effort=accept_best_effort, **options)


async def run_there(office: Office, coroutine: Any) -> Any:
    """Await, on the user's event loop, what runs on the office's. If cancelled, so is what runs there."""
    from tenure.office.mailbox import on_trio  # noqa: PLC0415

    if on_trio():
        return await _run_there_from_trio(office, coroutine)
    from tenure.office.crossing import Crossing  # noqa: PLC0415  (it needs asyncio, which takes long to import)

    return await Crossing(office, coroutine).answer()


async def _run_there_from_trio(office: Office, coroutine: Any) -> Any:
    from tenure.office.mailbox import LoopMailbox  # noqa: PLC0415

    mail: LoopMailbox[Any] = LoopMailbox()
    future = office.submit(coroutine)
    future.add_done_callback(mail.put)
    try:
        await mail.get()
    finally:
        future.cancel()  # does nothing to one that is done
    return future.result()


def wait_there(office: Office, coroutine: Any) -> Any:
    """Wait, in the user's thread, for what runs on the office's loop. If interrupted, what runs there is cancelled."""
    if office.is_here():
        coroutine.close()
        rule = "must not be waited for on its own thread: hand it to a thread of yours"
        raise ConfigError("office", "waits for itself", rule)
    future = office.submit(coroutine)
    try:
        return future.result()
    finally:
        future.cancel()  # does nothing to one that is done

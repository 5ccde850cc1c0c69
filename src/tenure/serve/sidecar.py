"""What one sidecar consists of, and how it begins and ends. Lives on the loop of its server."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from tenure.apps.history.reading import read_history
from tenure.apps.history.recorder import Recorder, keep
from tenure.election import Election
from tenure.errors import TenureError, redact
from tenure.facts import subscribe
from tenure.facts.kinds import Fact, as_json
from tenure.metrics import Prometheus
from tenure.office.opened import OpenStore, run_there
from tenure.plan import Budget
from tenure.serve.answers import Fault
from tenure.serve.board import Board
from tenure.serve.hub import BEAT_S, Hub
from tenure.serve.looking import LOOK_EVERY_S, Looker, View
from tenure.serve.offices import Stands
from tenure.serve.register import Register
from tenure.serve.setup import Setup
from tenure.stores.examining import CanSeeMembers
from tenure.stores.judging import judge_members

_LOG: Final = logging.getLogger("tenure.serve")
_AGAIN_AFTER_S: Final = 1.0
# What a value that nobody has thought of may raise.
_BY_A_VALUE: Final = (ArithmeticError, LookupError, TypeError, ValueError, TenureError)
_LATELY_S: Final = 3 * LOOK_EVERY_S + 5.0  # Three looks, of which one took as long as it may.
_BOARD_EVERY_S: Final = 0.25
_MEMBERS_EVERY_S: Final = 10.0  # Each is asked on a connection of its own, which an engine feels if it is often.
# One election at a time and ten a second: a thousand histories at once would be felt where elections are held.
_REMEMBER_EVERY_S: Final = 0.1
_REMEMBERED_MAX: Final = 1000
# Questions to the engine that are under way for clients. Whoever comes above waits, and the rate bounds how many do.
ASKING_MAX: Final = 16


class Sidecar:
    """Everything that requests are answered from."""

    def __init__(self, store: OpenStore, setup: Setup, document: dict[str, Any]) -> None:
        """``store`` has to be open before ``start``; ``document`` describes all that can be asked for."""
        self.store, self.setup, self.document = store, setup, document
        self.hub = Hub()
        self.view = View(store.office.clock)
        self.register = Register(store.office.clock)
        elections = [Election(store, name, timing=setup.timing, advertise=setup.advertise) for name in setup.stand]
        self.stands = Stands(elections, self.register.offices)
        self.metrics = Prometheus()
        self.board: Board
        self.leaving = False
        self.asking = asyncio.Semaphore(ASKING_MAX)
        self._looker = Looker(store, self.view, self.names, self._looked)
        self._tasks: list[asyncio.Task[None]] = []
        self._heard: deque[Fact] = deque()
        self._board_due = False
        self._remembered: set[str] = set()
        self._recorder: Recorder | None = None
        self._closing: asyncio.Task[None] | None = None
        self.register.stood_in.update(setup.stand)

    def names(self) -> set[str]:
        """Return the elections that this sidecar itself has to do with."""
        return self.register.names() | set(self.stands.elections)

    @property
    def ready(self) -> bool:
        """Whether the store has answered lately, and this sidecar is to stay."""
        age_s = self.view.age_s
        return not self.leaving and age_s is not None and age_s < _LATELY_S

    def check_known(self, election: str) -> None:
        """Return if there is such an election, as far as this sidecar has seen; raises Fault. Asks nobody."""
        if election in self.view.statuses or election in self.names():
            return
        if self.view.age_s is None:
            raise Fault(503, "not-looked-yet", f"the store {self.view.trouble}", headers={"Retry-After": "1"})
        near = self.view.near(election, self.names())
        fix = f"Did you mean {near[0]}?" if near else "See /v1/elections for those that there are."
        detail = f"there is no election {election[:80]!r}, as seen {self.view.age_s:g} s ago"
        raise Fault(404, "unknown-election", detail, fix=fix, near=near, seen_s_ago=self.view.age_s)

    async def start(self) -> None:
        """Look at the store, listen to what happens, and stand."""
        store = self.store.store
        self.board = Board(
            store.address,
            store.traits,
            Budget.of(self.setup.timing, store.traits),
            instance=self.setup.instance,
            read_only=not self.setup.writable,
        )
        self._loop = asyncio.get_running_loop()
        if self.setup.history:
            self._recorder = keep(self.store, elections=self.register.stood_in).__enter__()
        self._subscriptions = [subscribe(self.metrics), subscribe(self._hear)]
        self.stands.start()
        for forever in (self._looker.run, self._beat, self._show, self._remember, self._count_members):
            self._tasks.append(asyncio.create_task(_kept_up(forever)))

    async def close(self) -> None:
        """Give up every office, of which clients are told first, and end. A second call waits for the first."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self.leaving = True  # From here on /ready says so.
        await asyncio.gather(self.stands.end(), self.register.close(self.setup.drain_s))
        for subscription in self._subscriptions:
            await asyncio.to_thread(subscription.wait_until_told, 1.0)
            subscription.close()
        if self._recorder is not None:
            await asyncio.to_thread(self._recorder.close)
        self._publish_heard()
        self.hub.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # What comes in

    def _hear(self, fact: Fact) -> None:
        """Called on a thread of its own."""
        self._heard.append(fact)
        if len(self._heard) == 1:  # Whoever finds more there takes all of it.
            self._loop.call_soon_threadsafe(self._publish_heard)

    def _publish_heard(self) -> None:
        while self._heard:
            fact = self._heard.popleft()
            self.board.heard(fact)
            self.hub.publish("fact", as_json(fact), fact.election)
            self._board_due = True

    def _looked(self) -> None:
        trouble = self.view.trouble
        now_s = time.time()
        if not trouble:
            statuses = list(self.view.statuses.values())
            self.board.saw(statuses, now_s)
            self.metrics.saw(statuses, self.store.store.address)
        self.board.store_is(not trouble, trouble, at_s=now_s)
        self._board_due = True

    async def _count_members(self) -> None:
        """Ask the servers of the store one by one: an engine that has none to spare answers as ever, until it does not."""
        store = self.store.store
        if not isinstance(store, CanSeeMembers):
            return
        while True:
            with suppress(TenureError):  # It is closing, or there is nobody to ask: the looker tells of that.
                asked: dict[str, str | None] = await run_there(self.store.office, store.members())
                # Of one alone it is not known how many others there are.
                up = {name: silence is None for name, silence in asked.items()} if len(asked) > 1 else None
                self.board.store_is(not self.view.trouble, self.view.trouble, at_s=time.time(), members=up)
                self.metrics.examined([judge_members(asked)], store.address)
                self._board_due = True
            await asyncio.sleep(_MEMBERS_EVERY_S)

    async def _remember(self) -> None:
        """Read what is on record of each election, once, when it is first seen: what happened before this process began."""
        read = self._remembered
        while True:
            await asyncio.sleep(_REMEMBER_EVERY_S)
            name = next((name for name in self.view.statuses if name not in read), None)
            if name is None or len(read) >= _REMEMBERED_MAX or self.view.trouble:
                continue
            read.add(name)
            with suppress(TenureError, TimeoutError):  # Then it is shown from now on.
                async with self.asking, asyncio.timeout(_LATELY_S):
                    self.board.recorded(name, await read_history(self.store, name))
                self._board_due = True

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            self.hub.beat()

    async def _show(self) -> None:
        while True:
            await asyncio.sleep(_BOARD_EVERY_S)
            if self._board_due:
                self._board_due = False
                changes = self.board.changes()
                if changes["revision"] != changes["since"]:
                    self.hub.publish("board", changes, None)


async def _kept_up(forever: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run what ends by being cancelled, which is no failure. One that fails is begun anew.

    What is shown comes from others: records, names, addresses. One of them that nobody has thought of would otherwise have the page
    stand still, and look as if nothing happened any more.
    """
    try:
        while True:
            try:
                await forever()
            except _BY_A_VALUE as error:
                _LOG.error("%s has failed, and is begun anew: %s", forever.__name__, redact(repr(error)))
                await asyncio.sleep(_AGAIN_AFTER_S)
            else:
                return
    except asyncio.CancelledError:
        return

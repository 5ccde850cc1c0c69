"""What one sidecar consists of, and how it begins and ends. Lives on the loop of its server."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any, Final

from tenure.apps.history.reading import read_history
from tenure.apps.history.recorder import Recorder, keep
from tenure.clients.upkeep import keep_up
from tenure.election import Election
from tenure.errors import ConfigError, OutcomeUnknown, Refused, StoreError, TenureError, Unreachable
from tenure.facts import subscribe
from tenure.facts.kinds import Fact, as_json
from tenure.metrics import Prometheus
from tenure.office.opened import OpenStore, run_there
from tenure.plan import Budget
from tenure.serve.answers import Fault, fault_of, leaving
from tenure.serve.board import Board
from tenure.serve.hub import BEAT_S, Hub
from tenure.serve.looking import LOOK_EVERY_S, Looker, View
from tenure.serve.offices import Stands
from tenure.serve.recalling import Recall
from tenure.serve.register import Register
from tenure.serve.setup import Setup
from tenure.serve.standing import check_ttl
from tenure.stores.examining import CanSeeMembers
from tenure.stores.judging import judge_members

_LOG: Final = logging.getLogger("tenure.serve")
_AGAIN_AFTER_S: Final = 1.0
_LATELY_S: Final = 3 * LOOK_EVERY_S + 5.0  # Three looks, of which one took as long as it may.
_BOARD_EVERY_S: Final = 0.25
_MEMBERS_EVERY_S: Final = 10.0  # Each is asked on a connection of its own, which an engine feels if it is often.
# One election at a time and ten a second: a thousand histories at once would be felt where elections are held.
_REMEMBER_EVERY_S: Final = 0.1
# Questions to the engine that are under way for clients. Whoever comes above waits, and the rate bounds how many do.
ASKING_MAX: Final = 16


class Sidecar:
    """Everything that requests are answered from."""

    def __init__(
        self, store: OpenStore, setup: Setup, document: dict[str, Any], unreached: StoreError | None = None
    ) -> None:
        """``store`` is open before ``start``; or could not be opened, as ``unreached`` says, and another is until one can be.

        ``document`` describes all that can be asked for.
        """
        self.setup, self.document, self.unreached = setup, document, unreached
        self.hub = Hub()
        self.view = View(store.office.clock)
        self.register = Register(store.office.clock)
        self._use(store)
        self.metrics = Prometheus()
        self.board = Board(
            "" if unreached is None else unreached.store,
            None,
            Budget.of(setup.timing),
            instance=setup.instance,
            read_only=not setup.writable,
        )
        self.leaving = self._left = False
        self.asking = asyncio.Semaphore(ASKING_MAX)
        self._tasks: list[asyncio.Task[None]] = []
        self._reaching: asyncio.Task[None] | None = None
        self._opened = AsyncExitStack()  # What was opened here is closed here.
        self._heard: deque[Fact] = deque()
        self._board_due = False
        self.recall = Recall()
        self._recorder: Recorder | None = None
        self._closing: asyncio.Task[None] | None = None
        self.register.stood_in.update(setup.stand)

    def _use(self, store: OpenStore) -> None:
        timing, advertise = self.setup.timing, self.setup.advertise
        elections = [Election(store, name, timing=timing, advertise=advertise) for name in self.setup.stand]
        self.store, self.stands = store, Stands(elections, self.register.offices)
        self._looker = Looker(store, self.view, self.names, self._looked)

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
        """Listen to what happens; and look at the store, and stand, once it is there."""
        self._loop = asyncio.get_running_loop()
        self._subscriptions = [subscribe(self.metrics), subscribe(self._hear)]
        self._run(self._beat, self._show)
        if self.unreached is None:
            self._begin()
        else:
            self._reaching = keep_up(self._reach, "reaching the store")

    def _begin(self) -> None:
        """Do all that needs the store."""
        store, identity = self.store.store, ""
        try:
            identity = store.identity
        except StoreError as error:
            # Some have none, if nobody may write where it is kept: then nobody has fences of it either.
            _LOG.warning("nobody can stand here, and no history is recorded: %s", error)
        self.board.opened(store.address, store.traits, Budget.of(self.setup.timing, store.traits), identity)
        if self.setup.history and identity:
            self._recorder = keep(self.store, elections=self.register.stood_in).__enter__()
        try:
            if self.setup.stand:
                check_ttl(store, self.setup.timing)
        except ConfigError as error:
            # Who finds its engine there does not start with that. Who has waited for it is of use to others as it is.
            _LOG.error("nobody stands for %s, which needs another --ttl: %s", ", ".join(self.setup.stand), error)
        self.stands.start()
        self._run(self._looker.run, self._remember, self._count_members)

    async def _reach(self) -> None:
        """Open the store, however long that takes: who ends because its engine is down may not be started again when it is back."""
        # Each kind is said once. That the engine is not there was said when this began to wait for it.
        said: set[type[BaseException]] = {Unreachable, OutcomeUnknown}
        while self.unreached is not None:
            self.view.trouble = str(self.unreached)
            self._looked()
            await asyncio.sleep(_AGAIN_AFTER_S)
            # In a task of its own: were something of it cancelled from elsewhere, that is as good a reason as any to say.
            (failure,) = await asyncio.gather(self._try(), return_exceptions=True)
            if failure is None:
                return
            self.unreached = _unreached(failure, self.board.address)
            if type(failure) not in said:
                said.add(type(failure))
                _LOG.error("the store cannot be used yet, and is tried again: %s", self.unreached)

    async def _try(self) -> None:
        """Open the store and begin. All of it or nothing: were it open, and nobody stood, nothing would tell of that."""
        store = self.store.another()  # Most stores can be opened once, whether they were reached or not.
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(store)
            self._use(store)
            self._begin()
            self._opened, self.unreached = stack.pop_all(), None
        _LOG.warning("the store was reached: %s", store.store.address)

    def _run(self, *forever: Callable[[], Coroutine[Any, Any, None]]) -> None:
        # What is shown comes from others: records, names, addresses. One of them that nobody has thought of must not have the page
        # stand still, and look as if nothing happened any more.
        self._tasks += [keep_up(one, f"a task of the sidecar ({one.__name__})") for one in forever]

    def check_reached(self) -> None:
        """Return if the store is there to be asked; raises Fault."""
        if self._left:
            raise leaving()
        if self.unreached is not None:
            raise fault_of(self.unreached)

    async def close(self) -> None:
        """Give up every office, of which clients are told first, and end. A second call waits for the first."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self.leaving = True  # From here on /ready says so.
        if self._reaching is not None:  # Were the store reached while everybody leaves, somebody would begin to stand.
            self._reaching.cancel()
            await asyncio.wait([self._reaching])
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
        self._left = True  # Requests are answered for a moment longer.
        await self._opened.aclose()

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
        if not trouble and self.unreached is None:
            statuses = list(self.view.statuses.values())
            self.board.saw(statuses, now_s)
            led = {one.election: None if one.incumbent is None else int(one.incumbent.token) for one in statuses}
            self.recall.saw(led, time.monotonic())
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
        """Read what is on record of each election: what happened before this process began, and what holders elsewhere say."""
        while True:
            await asyncio.sleep(_REMEMBER_EVERY_S)
            name = None if self.view.trouble else self.recall.due(time.monotonic())
            if name is None:
                continue
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


def _unreached(error: BaseException, address: str) -> StoreError:
    """Return what keeps a store from being used, as those are told who ask for it."""
    match error:
        case StoreError():
            return error
        case ConfigError():  # The engine is there, and says that it cannot be used like that.
            return Refused(address, "open", f"{error.setting} {error.rule}")
        case _:
            return Unreachable(address, "open", repr(error))

"""A configuration in a store: proposed by anybody, applied by the leader, followed by all. Runs on asyncio and trio.

A change is one update of one document, so that of two at once one lands and the other sees it. The document keeps the highest
token that has led: it is a sink, and an election that is given it as such seals it before its body begins.
"""

import getpass
import os
import random
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Any, Final

import anyio

from tenure.apps.config import state as states
from tenure.apps.config.state import Edition, State
from tenure.errors import ConfigError, OutcomeUnknown, TenureError, Unreachable
from tenure.model import Token
from tenure.office.names import check_name
from tenure.office.opened import LoopStore
from tenure.sinks.base import Bound
from tenure.timing import Seconds, to_ns

_FOLDER: Final = "tenure/config/"
# A look costs one read. Nobody should notice a change of settings later than this, nor a thousand of them at one instant.
EVERY_S: Final = 1.0
_JITTER: Final = (0.75, 1.25)


class Rejected(TenureError):
    """Raised by what carries a proposal out: it is withdrawn, and ``why`` is kept."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)

    def __str__(self) -> str:
        return self.why


class Config:
    """One configuration: ``Config(store, "limits")``, in a store that is open.

    Promises that every edition was applied, or rejected, by a leader that no later one had succeeded when it was, and that nobody's proposal is overwritten
    unseen. Does not promise that all who follow it have the same edition at one instant, nor that one who carries a proposal out
    does so once: its leader may die between that and the record of it.
    """

    def __init__(self, store: LoopStore, name: str) -> None:
        self.name, self.store = check_name(name, "config"), store
        self.key = check_name(f"{_FOLDER}{name}", "config")

    async def state(self) -> State:
        """Return the configuration as the store has it now."""
        found = await self.store.document(self.key)
        return states.loaded(self.name, None if found is None else found.value)

    async def propose(self, value: Any, *, seen: int | None = None, by: str = "") -> Edition:
        """Propose a new edition on top of the edition ``seen`` (None: of what is applied now), and return it.

        Raises Outdated, which has the new state, if another was proposed or applied that is not ``seen``. What is proposed
        and was seen gives way.
        """
        states.check_value(value, f"config {self.name}")
        if seen is None:
            seen = _applied_version(await self.state())
        at = datetime.now(UTC).isoformat(timespec="seconds")
        edition = Edition(0, value, by or _who(), at)
        changed = await self._change(lambda state: states.proposed(self.name, state, edition, seen))
        assert changed.proposed is not None
        return changed.proposed

    async def roll_back(self, version: int, *, seen: int | None = None, by: str = "") -> Edition:
        """Propose what an earlier edition said, under a new number."""
        now = await self.state()
        old = now.edition(version)
        if old is None:
            kept = ", ".join(str(one.version) for one in now.history) or "none"
            raise ConfigError("version", version, f"of {self.name} is not kept: there are {kept}")
        return await self.propose(old.value, seen=_applied_version(now) if seen is None else seen, by=by)

    async def withdraw(self, version: int, why: str = "") -> None:
        """Take a proposal back, as anybody may. Raises Outdated if it is none any more."""
        await self._change(lambda state: states.withdrawn(self.name, state, version, why))

    async def apply(self, term: Bound, version: int) -> Edition:
        """Make a proposal the applied edition, under ``term``. Raises StaleToken, and changes nothing, if it was succeeded."""
        changed = await self._change(lambda state: states.applied(self.name, state, version, term.fence, term.token))
        assert changed.applied is not None
        return changed.applied

    async def reject(self, term: Bound, version: int, why: str) -> None:
        """Withdraw a proposal that cannot be carried out, under ``term``. Raises as ``apply`` does."""

        def rejected(state: State) -> State:
            in_office = states.sealed(self.name, state, term.fence, term.token)
            return states.withdrawn(self.name, in_office, version, why)

        await self._change(rejected)

    async def seal(self, fence: str, token: Token) -> None:
        """Raise the highest token, so that nothing older applies or rejects anything from now on (see ``Sink``)."""
        await self._change(lambda state: states.sealed(self.name, state, fence, token))

    async def watch(self, every: Seconds = EVERY_S) -> AsyncGenerator[State]:
        """Yield what there is, and again whenever that has changed. Looks ``every`` so often, and may miss what lasts for less.

        Raises StoreError if the first look fails; later it waits until the store can be asked again.
        """
        every_s = to_ns("every", every) / 1e9
        if every_s <= 0:
            raise ConfigError("every", every, "must be more than 0")
        now = await self.state()
        yield now
        while True:
            await anyio.sleep(every_s * random.uniform(*_JITTER))
            with suppress(Unreachable, OutcomeUnknown):
                last, now = now, await self.state()
                if now != last:
                    yield now

    async def serve(
        self,
        term: Bound,
        carry_out: Callable[[Edition], Awaitable[None]],
        *,
        every: Seconds = EVERY_S,
        told: Callable[[str, Edition], None] = lambda _, __: None,
    ) -> None:
        """Apply every proposal once ``carry_out`` has returned, for as long as ``term`` lasts: the body of a leader.

        ``carry_out`` may be called again for an edition whose leader died: it must bear that. What it raises as Rejected
        withdraws the proposal. Raises StaleToken if ``term`` was succeeded. ``told`` hears what was "applied" or "withdrawn".
        """
        async with aclosing(self.watch(every)) as looks:
            async for now in looks:
                proposal = now.proposed
                if proposal is None:
                    continue
                with suppress(states.Outdated):  # It was withdrawn meanwhile.
                    try:
                        await carry_out(proposal)
                    except Rejected as no:
                        await self.reject(term, proposal.version, no.why)
                        told("withdrawn", proposal)
                    else:
                        told("applied", await self.apply(term, proposal.version))

    async def _change(self, change: Callable[[State], State]) -> State:
        made = State()

        def changed(old: bytes | None) -> bytes:
            nonlocal made
            made = change(states.loaded(self.name, old))
            return states.dumped(made)

        await self.store.update(self.key, changed)
        return made


def _applied_version(state: State) -> int:
    return 0 if state.applied is None else state.applied.version


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no name for this number, as in many containers
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"

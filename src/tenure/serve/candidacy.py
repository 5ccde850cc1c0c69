"""A candidacy that is held for a client: somebody who speaks HTTP, and may vanish at any moment.

    waiting ──▶ leading ──▶ lost       the tenure is over, and the client must stop
       │           └──────▶ ended      the client resigned, or has not been heard of in time
       └──────────────────▶ ended

Rules of this file
1. One candidacy is one tenure at the most. A client that slept through a loss would otherwise find itself leading again under the same
   id, and go on with the old token.
2. ``valid_for_s`` is a promise: before that time is over, counted from when the request was *sent*, nothing of this is released, unless
   the client says so. It never reaches past the tenure's own validity, nor past the client's own deadline.
3. The client's deadline runs from its last request. No answer that it waits for takes longer than half of it.
4. When the tenure has to end, the client is told first (``lost``), and what is left of the promise is its time to stop in.
"""

import asyncio
import secrets
from collections.abc import Callable
from enum import StrEnum
from typing import Final, Literal

import anyio

from tenure.election import Election
from tenure.errors import Reason, TenureError, TenureOver
from tenure.lock import Lock
from tenure.office.on_loop import Stay
from tenure.office.tenure import Tenure
from tenure.serve.offices import Offices

KEEP_S: Final = 10.0
KEEP_MIN_S: Final = 1.0
KEEP_MAX_S: Final = 300.0  # For so long may an office stay with a client that is dead.
SHUTDOWN: Final = "shutdown"  # why a tenure is lost whose sidecar is being stopped
Kind = Literal["candidacy", "lock"]


class State(StrEnum):
    """How it stands with a candidacy."""

    WAITING = "waiting"
    LEADING = "leading"
    LOST = "lost"
    ENDED = "ended"


class Taken(TenureError):
    """Others were in office all the time that the client would wait."""


class _Stay(Stay):
    """A tenure that is waited for no longer than the client will."""

    def __init__(self, standing: Election | Lock, wait_s: float | None) -> None:
        super().__init__(standing.desk, ())
        self._wait_s = wait_s

    async def __aenter__(self) -> Tenure:
        tenure = await self.enter(self._wait_s)
        if tenure is None:
            raise Taken
        return tenure


class Candidacy:
    """One of them, from when it was asked for until everything was released. Used on the loop of the server."""

    def __init__(self, standing: Election | Lock, offices: Offices, keep_s: float, wait_s: float | None) -> None:
        """``wait_s``: for how long to stand; None: until the client says otherwise or is gone."""
        self.id = secrets.token_urlsafe(18)
        self.standing, self.keep_s = standing, keep_s
        self._offices, self._clock, self._wait_s = offices, standing.desk.office.clock, wait_s
        self.state, self.reason = State.WAITING, ""
        self.told: State | None = None  # what the client was last answered
        self.trouble: TenureError | None = None
        self._tenure: Tenure | None = None
        self._token, self._fence = 0, ""
        self._streams = 0
        self._promised_until = 0
        self._changed, self._stop, self._let_go = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._why = ""  # Why it was let go, or is to stop, if it is not the tenure that is over.
        self._alarm: asyncio.TimerHandle | None = None
        self._deadline = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def kind(self) -> Kind:
        """What the client asked for."""
        return "lock" if isinstance(self.standing, Lock) else "candidacy"

    @property
    def over(self) -> bool:
        """Whether everything was released."""
        return self._task is not None and self._task.done()

    @property
    def valid_for_s(self) -> float:
        """For how long the client may believe that it leads, from now on, if nothing more is heard. Not yet a promise."""
        if self._tenure is None or self.over or self._let_go.is_set():
            return 0.0
        now = self._clock.now()
        # Half of the grace is ours, to release in: what is promised to the last moment would be an overstay.
        until_s = self._tenure.remaining - self.standing.timing.grace_ns / 2e9
        # The office knows a moment before us that a tenure has to stop, and from then on nothing more is promised.
        if self.state is not State.LEADING or self._tenure.reason is not None:
            return max(0.0, min(until_s, (self._promised_until - now) / 1e9))
        return max(0.0, until_s if self._streams else min(until_s, (self._deadline - now) / 1e9))

    def begin(self, when_over: Callable[[], object]) -> None:
        """Stand; ``when_over`` is called when everything was released."""
        self.alive()
        self._task = asyncio.create_task(self._run(), name=f"candidacy {self.standing.name}")
        # One that was cancelled before it had run at all has said nothing of its end.
        self._task.add_done_callback(lambda _: self._become(State.ENDED, self._why or "cancelled"))
        self._task.add_done_callback(lambda _: when_over())

    def alive(self) -> None:
        """Take note that the client has asked for something."""
        self._deadline = self._clock.now() + int(self.keep_s * 1e9)
        self._set_alarm(self.keep_s)

    def as_json(self) -> dict[str, object]:
        """Return what the client is told, which is a promise from now on."""
        now = self._clock.now()  # Before the rest is worked out: what is left must not grow by having been asked for.
        self.told, valid_for_s = self.state, self.valid_for_s
        self._promised_until = max(self._promised_until, now + int(valid_for_s * 1e9))
        return {
            "id": self.id,
            "kind": self.kind,
            "election": self.standing.name,
            "state": self.state.value,
            "reason": self.reason or None,
            "token": self._token or None,
            "fence": self._fence or None,
            "holder": str(self.standing.holder),
            "valid_for_s": round(valid_for_s - 0.0005, 3) if valid_for_s > 0.001 else 0,  # noqa: PLR2004  (rounded down)
            "keep_s": self.keep_s,
        }

    async def differs(self, state: State | None) -> None:
        """Wait until the state is not ``state`` (None: what was last told)."""
        seen = state or self.told
        while self.state is seen:
            await self._changed.wait()

    async def changed(self) -> None:
        """Wait for the next change of state."""
        await self._changed.wait()

    def resign(self, why: str = "resigned") -> None:
        """Leave: the client has ended its work, or is gone. Returns at once; ``released`` waits."""
        self._why = self._why or why
        self._let_go.set()
        self._stop.set()
        if self._tenure is None and self._task is not None:
            self._task.cancel()  # It still waits.

    def dismiss(self, why: str) -> None:
        """Tell the client to stop, and leave when it has, or when what it was promised is over. Returns at once."""
        self._why = self._why or why
        if self._tenure is None:
            self.resign(why)
        self._stop.set()

    async def released(self) -> None:
        """Return when everything was released."""
        assert self._task is not None, "begun first"
        await asyncio.wait([self._task])

    def stream_opened(self) -> None:
        """Take note that a connection is open whose end is the client's."""
        self._streams += 1

    def stream_closed(self, *, is_cut_off: bool = False) -> None:
        """Take note that one is closed. The last one ends the tenure: at once, if it was the client that closed it.

        ``is_cut_off``: nobody closed it, but the network carries nothing any more. Then the client may live, and believe what it was
        last told until that is over.
        """
        self._streams -= 1
        if not self._streams and is_cut_off:
            self._deadline = max(self._deadline, self._promised_until)  # Who has a stream sends no other sign of life.
            self.dismiss("client-gone")
        elif not self._streams:
            self.resign("client-gone")

    async def _run(self) -> None:
        try:
            async with _Stay(self.standing, self._wait_s) as tenure:
                self._tenure, self._token, self._fence = tenure, tenure.token, tenure.fence
                self._become(State.LEADING)
                await self._work(tenure)
        except asyncio.CancelledError:  # It resigned while it waited. Whoever ends the loop gets the same.
            self._become(State.ENDED, self._why or "cancelled")
        except Taken:
            self._become(State.ENDED, "taken")
        except TenureOver as over:
            self._become(State.LOST, self.reason or over.reason.value)
        except TenureError as error:
            self.trouble = error
            self._become(State.ENDED, "failed")
        else:
            if self.state is State.LEADING:
                self._become(State.ENDED, self._why)
        finally:
            self._set_alarm(None)

    async def _work(self, tenure: Tenure) -> None:
        """Be the body: until the client goes, or the tenure does, which cancels this."""
        try:
            with self._offices.holding(tenure):  # Not while the client stops: who is sent there would be turned away.
                await self._stop.wait()
        finally:
            if not self._let_go.is_set():
                reason = tenure.reason or Reason.RESIGNED
                # What was promised before is kept, and nothing more is.
                self._become(State.LOST, self._why or reason.value)
                with anyio.CancelScope(shield=True), anyio.move_on_after(self.valid_for_s):
                    await self._let_go.wait()

    def _become(self, state: State, reason: str = "") -> None:
        if self.state in (State.LOST, State.ENDED):
            return
        self.state, self.reason = state, reason
        self._changed.set()
        self._changed = asyncio.Event()

    def _set_alarm(self, in_s: float | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if in_s is not None and not self.over:
            self._alarm = asyncio.get_running_loop().call_later(in_s, self._due)

    def _due(self) -> None:
        left_s = (self._deadline - self._clock.now()) / 1e9
        if self._streams:
            self._set_alarm(self.keep_s)
        elif left_s > 0:
            self._set_alarm(left_s)
        else:
            self.resign("client-gone")

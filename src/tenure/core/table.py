"""The candidate as data: every state, every event, what handles the pair and where it may lead.

The diagram in the docs is generated from this table, and tests walk every pair: each one is either handled by a
method of ``core/candidate.py`` or ignored for a reason that stands here.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from tenure.core.events import (
    BodyEnded,
    Changed,
    Deposed,
    Event,
    Failed,
    GiveUp,
    Granted,
    MustWait,
    Resign,
    Sealed,
    Stand,
    Tick,
)


class State(StrEnum):
    """Where a candidate stands."""

    IDLE = "idle"
    CLAIMING = "claiming"
    STANDBY = "standby"
    SEALING = "sealing"
    LEADING = "leading"
    STOPPING = "stopping"

    __hash__ = (
        str.__hash__
    )  # That of enumerations is a function in Python, and every step of a machine looks up a state.


IDLE, CLAIMING, STANDBY, SEALING, LEADING, STOPPING = State


class Row(NamedTuple):
    """One line of the table: the method that handles the event, and every state it may end in."""

    handler: str
    to: tuple[State, ...]


TRANSITIONS: Final[dict[tuple[State, type[Event]], Row]] = {
    (IDLE, Stand): Row("_stand", (CLAIMING,)),
    (IDLE, Granted): Row("_stray_grant", (IDLE,)),
    (IDLE, MustWait): Row("_stray_wait", (IDLE,)),
    (CLAIMING, Resign): Row("_withdraw", (IDLE,)),
    (CLAIMING, Granted): Row("_take", (SEALING, CLAIMING)),
    (CLAIMING, MustWait): Row("_wait", (STANDBY, CLAIMING)),
    (CLAIMING, Failed): Row("_ask_failed", (CLAIMING,)),
    (CLAIMING, Tick): Row("_claim_due", (CLAIMING,)),
    (STANDBY, Resign): Row("_withdraw", (IDLE,)),
    (STANDBY, Granted): Row("_take", (SEALING, CLAIMING, STANDBY)),
    (STANDBY, MustWait): Row("_wait", (STANDBY,)),
    (STANDBY, Failed): Row("_watch_failed", (CLAIMING, STANDBY)),
    (STANDBY, Changed): Row("_changed", (CLAIMING,)),
    (STANDBY, Tick): Row("_claim_due", (CLAIMING, STANDBY)),
    (SEALING, Resign): Row("_withdraw", (IDLE,)),
    (SEALING, Granted): Row("_renewed", (SEALING, CLAIMING)),
    (SEALING, MustWait): Row("_stray_wait", (SEALING,)),
    (SEALING, Deposed): Row("_deposed", (CLAIMING, SEALING)),
    (SEALING, Failed): Row("_office_failed", (SEALING,)),
    (SEALING, Sealed): Row("_sealed", (LEADING, SEALING)),
    (SEALING, Tick): Row("_office_due", (SEALING, CLAIMING)),
    (LEADING, Resign): Row("_resign", (STOPPING,)),
    (LEADING, GiveUp): Row("_give_up", (STOPPING,)),
    (LEADING, Granted): Row("_renewed", (LEADING, STOPPING)),
    (LEADING, MustWait): Row("_stray_wait", (LEADING,)),
    (LEADING, Deposed): Row("_deposed", (STOPPING, LEADING)),
    (LEADING, Failed): Row("_office_failed", (LEADING,)),
    (LEADING, BodyEnded): Row("_body_ended", (IDLE, LEADING)),
    (LEADING, Tick): Row("_office_due", (LEADING, STOPPING)),
    (STOPPING, Stand): Row("_note_wish", (STOPPING,)),
    (STOPPING, Resign): Row("_note_wish", (STOPPING,)),
    (STOPPING, Granted): Row("_stray_grant", (STOPPING,)),
    (STOPPING, MustWait): Row("_stray_wait", (STOPPING,)),
    (STOPPING, Deposed): Row("_deposed_while_stopping", (STOPPING,)),
    (STOPPING, BodyEnded): Row("_body_ended", (CLAIMING, IDLE, STOPPING)),
    (STOPPING, Tick): Row("_overstay_due", (STOPPING,)),
}

_STANDING = "already standing: a second Stand asks for nothing new"
_NO_TENURE = "answers a tenure of this candidate that is over"
_NOT_ASKED = "nothing is open that could have failed"
_NOT_WATCHING = "the watch it ends belongs to a wait that is over"
_NO_BODY = "no body is running"
_NOT_LEADING = "there is no office to give up, or it is being given up already"
_NOT_SEALING = "the seal it answers belongs to an office that is already taken or given up"

IGNORED: Final[dict[tuple[State, type[Event]], str]] = {
    (IDLE, Resign): "not standing: a second Resign asks for nothing new",
    (IDLE, GiveUp): _NOT_LEADING,
    (IDLE, Deposed): _NO_TENURE,
    (IDLE, Failed): _NOT_ASKED,
    (IDLE, Changed): _NOT_WATCHING,
    (IDLE, Sealed): _NOT_SEALING,
    (IDLE, BodyEnded): _NO_BODY,
    (IDLE, Tick): "nothing is timed",
    (CLAIMING, Stand): _STANDING,
    (CLAIMING, GiveUp): _NOT_LEADING,
    (CLAIMING, Deposed): _NO_TENURE,
    (CLAIMING, Changed): "a claim is already under way",
    (CLAIMING, Sealed): _NOT_SEALING,
    (CLAIMING, BodyEnded): _NO_BODY,
    (STANDBY, Stand): _STANDING,
    (STANDBY, GiveUp): _NOT_LEADING,
    (STANDBY, Deposed): _NO_TENURE,
    (STANDBY, Sealed): _NOT_SEALING,
    (STANDBY, BodyEnded): _NO_BODY,
    (SEALING, Stand): _STANDING,
    (SEALING, GiveUp): _NOT_LEADING,
    (SEALING, Changed): _NOT_WATCHING,
    (SEALING, BodyEnded): _NO_BODY,
    (LEADING, Stand): _STANDING,
    (LEADING, Changed): _NOT_WATCHING,
    (LEADING, Sealed): _NOT_SEALING,
    (STOPPING, GiveUp): _NOT_LEADING,
    (STOPPING, Failed): "renewal ended when stopping began",
    (STOPPING, Changed): _NOT_WATCHING,
    (STOPPING, Sealed): _NOT_SEALING,
}

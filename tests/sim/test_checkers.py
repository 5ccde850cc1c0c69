"""Each checker on histories written by hand: what it must let pass, and what it must not."""

import pytest

from tenure.errors import Reason
from tenure.sim.checkers import CHECKERS, check
from tenure.sim.history import REASONS, Entry, History, Kind
from tenure.sim.plan import Options, Plan, draw

PLAN: Plan = draw(Options(1, without=frozenset({"fragile-store"})))
S = 10**9
LONG = 10_000 * S

Row = tuple[int, Kind, str, int, int]


def history(*rows: Row) -> History:
    return History(Entry(at, kind, who, token, number, "") for at, kind, who, token, number in rows)


BROKEN: dict[str, list[tuple[Row, ...]]] = {
    "one-valid-tenure": [
        ((1, Kind.HOLDS, "A1", 1, 10), (9, Kind.HOLDS, "B1", 2, 20)),
        # The older one's renewal comes after the younger one's grant.
        ((1, Kind.HOLDS, "A1", 1, 5), (6, Kind.HOLDS, "B1", 2, 20), (7, Kind.HOLDS, "A1", 1, 30)),
        # A clock that was bent makes the belief longer.
        ((1, Kind.HOLDS, "A1", 1, 5), (4, Kind.RECLOCKED, "A1", 1, 9), (6, Kind.HOLDS, "B1", 2, 20)),
    ],
    "tokens-rise": [
        ((1, Kind.GRANTED, "A1", 1, 1), (2, Kind.GRANTED, "B1", 1, 1)),
        ((1, Kind.GRANTED, "A1", 2, 1), (2, Kind.GRANTED, "B1", 1, 1)),
    ],
    "fence-holds": [
        ((1, Kind.ACCEPTED, "sink", 2, 0), (2, Kind.ACCEPTED, "sink", 1, 0)),
        ((1, Kind.SEALED, "sink", 2, 0), (2, Kind.ACCEPTED, "sink", 1, 0)),
    ],
    "no-write-after-successor": [((1, Kind.BEGAN, "B1", 2, 1), (2, Kind.ACCEPTED, "sink", 1, 0))],
    "release-after-body": [((1, Kind.BEGAN, "A1", 1, 4), (2, Kind.RELEASED, "A1", 0, 4))],
    "never-resumed": [
        ((1, Kind.BEGAN, "A1", 1, 1), (2, Kind.ENDED, "A1", 1, 1), (3, Kind.BEGAN, "A1", 1, 1)),
        ((1, Kind.HOLDS, "A1", 1, 5), (6, Kind.HOLDS, "A1", 1, 9)),
        ((1, Kind.HOLDS, "A1", 1, 5), (2, Kind.LEFT, "A1", 1, 0), (3, Kind.HOLDS, "A1", 1, 9)),
        ((1, Kind.HOLDS, "A1", 1, 5), (2, Kind.STOPPING, "A1", 1, 0), (3, Kind.HOLDS, "A1", 1, 9)),
        ((1, Kind.FREED, "store", 1, 0), (2, Kind.RENEWED, "store", 1, 0)),
    ],
    "office-filled": [
        ((1, Kind.HEALED, "world", 0, 0), (LONG, Kind.FINISHED, "world", 0, 0)),
        (
            (1, Kind.BEGAN, "A1", 1, 1),
            (2, Kind.HEALED, "world", 0, 0),
            (3, Kind.CRASHED, "A1", 1, 0),
            (LONG, Kind.FINISHED, "world", 0, 0),
        ),
    ],
    "no-lost-wake-up": [
        ((1, Kind.STANDBY, "A1", 0, 0), (2, Kind.WOKEN, "A1", 0, 0), (3, Kind.FINISHED, "world", 0, 0)),
        ((1, Kind.HEALED, "world", 0, 0), (2, Kind.STANDBY, "A1", 0, 0), (LONG, Kind.FINISHED, "world", 0, 0)),
        (
            (1, Kind.GRANTED, "B1", 1, 1),
            (2, Kind.HEALED, "world", 0, 0),
            (3, Kind.STANDBY, "A1", 0, 0),
            (4, Kind.FREED, "store", 1, 0),
            (LONG, Kind.WAITS_NO_MORE, "A1", 0, 0),
        ),
    ],
    "orders-in-order": [((1, Kind.EXECUTED, "worker", 2, 0), (2, Kind.EXECUTED, "worker", 1, 0))],
    "belief-within-lease": [
        ((1, Kind.LEASED, "store", 1, 9), (2, Kind.HOLDS, "A1", 1, 10)),
        ((1, Kind.LEASED, "store", 1, 9), (2, Kind.HOLDS, "A1", 1, 8), (3, Kind.RECLOCKED, "A1", 1, 10)),
        ((2, Kind.HOLDS, "A1", 1, 10),),
    ],
    "stopped-in-time": [
        (
            (0, Kind.STARTED, "A1", 0, 0),
            (1, Kind.HOLDS, "A1", 1, LONG),
            (2, Kind.BEGAN, "A1", 1, 1),
            (LONG + 1, Kind.FINISHED, "world", 0, 0),
        ),
        (
            (0, Kind.STARTED, "A1", 0, 0),
            (1, Kind.HOLDS, "A1", 1, 5),
            (2, Kind.BEGAN, "A1", 1, 1),
            (3, Kind.FROZE, "A1", 0, 0),
            (LONG, Kind.THAWED, "A1", 0, 0),
            (LONG + 1, Kind.FINISHED, "world", 0, 0),
        ),
    ],
    "overstay-is-told": [
        (
            (1, Kind.HOLDS, "A1", 1, 5),
            (2, Kind.BEGAN, "A1", 1, 1),
            (6, Kind.ENDED, "A1", 1, 1),
            (6, Kind.LEFT, "A1", 1, 0),
        ),
    ],
    "deposed-stops": [
        ((1, Kind.BEGAN, "A1", 1, 1), (2, Kind.DEPOSED, "A1", 1, 0), (3, Kind.FINISHED, "world", 0, 0)),
    ],
    "released-promptly": [
        (
            (1, Kind.HEALED, "world", 0, 0),
            (2, Kind.GRANTED, "A1", 1, 1),
            (3, Kind.ENDED, "A1", 1, 1),
            (LONG, Kind.FREED, "store", 1, 0),
        ),
    ],
    "keeps-office": [
        (
            (1, Kind.HEALED, "world", 0, 0),
            (2, Kind.GRANTED, "A1", 1, 1),
            (3, Kind.STOPPING, "A1", 1, REASONS.index(reason)),
        )
        for reason in (Reason.LAPSED, Reason.STORE_GONE, Reason.DEPOSED)
    ],
    "refusals-are-earned": [((1, Kind.SEALED, "sink", 2, 0), (2, Kind.REFUSED, "sink", 2, 0))],
}

FINE: dict[str, tuple[Row, ...]] = {
    "one-valid-tenure": (
        (1, Kind.HOLDS, "A1", 1, 5),
        (5, Kind.HOLDS, "B1", 2, 20),  # to the nanosecond: validity ends before its last instant
        (6, Kind.CRASHED, "B1", 2, 0),
        (7, Kind.HOLDS, "C1", 3, 20),
        (8, Kind.LEFT, "C1", 3, 0),
        (9, Kind.HOLDS, "A1", 4, 20),
    ),
    "tokens-rise": ((1, Kind.GRANTED, "A1", 1, 1), (2, Kind.GRANTED, "B1", 5, 1)),
    "fence-holds": ((1, Kind.SEALED, "sink", 2, 0), (2, Kind.ACCEPTED, "sink", 2, 0), (3, Kind.REFUSED, "sink", 1, 0)),
    "no-write-after-successor": ((1, Kind.BEGAN, "B1", 2, 1), (2, Kind.ACCEPTED, "sink", 2, 0)),
    "release-after-body": (
        (1, Kind.RELEASED, "A1", 0, 3),  # another bid of its own
        (2, Kind.BEGAN, "A1", 1, 4),
        (3, Kind.RELEASED, "A1", 0, 3),
        (4, Kind.ENDED, "A1", 1, 4),
        (5, Kind.RELEASED, "A1", 0, 4),
    ),
    "never-resumed": (
        (1, Kind.HOLDS, "A1", 1, 5),
        (4, Kind.HOLDS, "A1", 1, 9),
        (5, Kind.STOPPING, "A1", 1, 0),
        (6, Kind.HOLDS, "A1", 1, 6),  # deposed: belief is cut short
        (7, Kind.LEFT, "A1", 1, 0),
        (8, Kind.FREED, "store", 1, 0),
        (9, Kind.RENEWED, "store", 2, 0),
    ),
    "office-filled": (
        (1, Kind.HEALED, "world", 0, 0),
        (2, Kind.BEGAN, "A1", 1, 1),
        (LONG, Kind.ENDED, "A1", 1, 1),
        (LONG + 1, Kind.BEGAN, "B1", 2, 1),
    ),
    "no-lost-wake-up": (
        (0, Kind.WOKEN, "C1", 0, 0),  # by an old watch, when it does not wait
        (1, Kind.STANDBY, "C1", 0, 0),  # since before the faults ended: its watch may be lost
        (2, Kind.HEALED, "world", 0, 0),
        (3, Kind.STANDBY, "A1", 0, 0),
        (4, Kind.WAITS_NO_MORE, "A1", 0, 0),
        (LONG, Kind.GRANTED, "A1", 1, 1),
        (LONG + 1, Kind.STANDBY, "B1", 0, 0),
        (2 * LONG, Kind.FINISHED, "world", 0, 0),
    ),
    "orders-in-order": ((1, Kind.EXECUTED, "worker", 1, 0), (2, Kind.EXECUTED, "worker", 1, 0)),
    "belief-within-lease": ((1, Kind.LEASED, "store", 1, 9), (2, Kind.HOLDS, "A1", 1, 9), (3, Kind.HOLDS, "A1", 1, 5)),
    "stopped-in-time": (
        (0, Kind.STARTED, "A1", 0, 0),
        (1, Kind.HOLDS, "A1", 1, LONG),
        (2, Kind.BEGAN, "A1", 1, 1),
        (3, Kind.FROZE, "A1", 0, 0),
        (2 * LONG, Kind.FAULT, "world", 0, 0),  # frozen: it cannot tell anybody anything
        (2 * LONG, Kind.THAWED, "A1", 0, 0),
        (2 * LONG, Kind.STOPPING, "A1", 1, 0),
        (3 * LONG, Kind.FINISHED, "world", 0, 0),
    ),
    "overstay-is-told": (
        (1, Kind.HOLDS, "A1", 1, 5),
        (6, Kind.OVERSTAYED, "A1", 1, 0),
        (7, Kind.ENDED, "A1", 1, 1),
        (7, Kind.LEFT, "A1", 1, 0),
        (8, Kind.HOLDS, "A1", 2, 8),
        (8, Kind.DEPOSED, "A1", 2, 0),
        (9, Kind.ENDED, "A1", 2, 1),
        (9, Kind.LEFT, "A1", 2, 0),
    ),
    "deposed-stops": (
        (1, Kind.BEGAN, "A1", 1, 1),
        (2, Kind.DEPOSED, "A1", 7, 0),  # another tenure
        (3, Kind.DEPOSED, "A1", 1, 0),
        (3, Kind.STOPPING, "A1", 1, 1),
        (4, Kind.DEPOSED, "A1", 1, 0),
        (5, Kind.FINISHED, "world", 0, 0),
    ),
    "released-promptly": (
        (1, Kind.HEALED, "world", 0, 0),
        (2, Kind.GRANTED, "A1", 1, 1),
        (3, Kind.ENDED, "A1", 1, 1),
        (4, Kind.FREED, "store", 1, 0),
        (LONG, Kind.FINISHED, "world", 0, 0),
    ),
    "keeps-office": (
        (1, Kind.GRANTED, "A1", 1, 1),
        (2, Kind.HEALED, "world", 0, 0),
        (3, Kind.STOPPING, "A1", 1, REASONS.index(Reason.LAPSED)),  # of before
        (4, Kind.GRANTED, "A1", 2, 1),
        (5, Kind.STOPPING, "A1", 2, REASONS.index(Reason.RESIGNED)),
    ),
    "refusals-are-earned": ((1, Kind.SEALED, "sink", 2, 0), (2, Kind.REFUSED, "sink", 1, 0)),
}


@pytest.mark.parametrize(("name", "rows"), [(name, rows) for name, cases in BROKEN.items() for rows in cases])
def test_checker_notices(name: str, rows: tuple[Row, ...]) -> None:
    assert name in {violation.checker for violation in check(history(*rows), PLAN)}


@pytest.mark.parametrize("name", CHECKERS)
def test_checker_lets_pass_what_is_allowed(name: str) -> None:
    assert CHECKERS[name](history(*FINE[name]), PLAN) is None

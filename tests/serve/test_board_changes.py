"""What a board tells of what has changed: enough, and nothing besides."""

import random
from typing import Any

from tenure.errors import Reason
from tenure.facts.kinds import Elected, Left
from tenure.model import Token
from tenure.serve.board import Board
from tests.serve.boards import board, fact, holder, renewed, status

ADA, BOB = holder("ada"), holder("bob")
T0_S = 1_800_000_000.0
MOVING = ("held_for_s", "remaining_s", "as_of")


def led(count: int = 3) -> Board:
    made = board()
    made.saw([status(f"e{number}", ADA, 1, left_s=8) for number in range(count)], T0_S)
    made.changes()
    return made


def merged(known: dict[str, dict[str, Any]], changes: dict[str, Any]) -> None:
    """What the page does with changes: ``model.js``."""
    for name in changes["gone"]:
        known.pop(name, None)
    for news in changes["elections"]:
        row = known.setdefault(news["election"], {"margins": [], "renewals": 0})
        added = news.pop("margins_added", [])
        fresh = min(len(added), news.get("renewals", 0) - row["renewals"])
        if fresh > 0:
            row["margins"] = [*row["margins"], *added[len(added) - fresh :]][-60:]
        row.update(news)


def still(rows: Any) -> dict[str, dict[str, Any]]:
    """Rows without what moves by itself."""
    return {row["election"]: {key: value for key, value in row.items() if key not in MOVING} for row in rows}


def test_nothing_is_told_while_leases_are_only_prolonged() -> None:
    made = led()
    made.saw([status(f"e{number}", ADA, 1, left_s=7.9) for number in range(3)], T0_S + 0.1)
    told = made.changes()
    assert (told["elections"], told["gone"], told["revision"]) == ([], [], told["since"])
    assert "store" not in told
    assert "headline" not in told


def test_only_rows_that_changed_are_told_and_of_them_only_what_did() -> None:
    made = led()
    pictures = [status("e0", ADA, 1, left_s=7), status("e1", ADA, 1, left_s=7, standbys=(BOB,)), status("e2", None)]
    made.saw(pictures, T0_S + 1)
    told = made.changes()
    assert [row["election"] for row in told["elections"]] == ["e1", "e2"]
    assert set(told["elections"][0]) == {"election", "standbys", "why", *MOVING}
    assert told["headline"]["also"] == ["1 idle, left by choice"]
    assert told["revision"] == told["since"] + 1


def test_a_renewal_is_told_as_one_number() -> None:
    made = board()
    made.heard(fact(Elected(Token(1), 0), T0_S, "jobs", ADA))
    for beat in range(10):
        made.heard(renewed(T0_S + 2 * beat, "jobs", ADA, 5.9))
    made.changes()
    made.heard(renewed(T0_S + 20, "jobs", ADA, 5.7))
    (told,) = made.changes()["elections"]
    assert told["margins_added"] == [5.7]
    assert "margins" not in told
    assert "timeline" in told, "the least margin of the tenure is a new one"
    made.heard(renewed(T0_S + 22, "jobs", ADA, 5.8))
    (told,) = made.changes()["elections"]
    assert set(told) == {"election", "margins_added", "margin_s", "renewals", *MOVING}


def test_whoever_merges_every_change_knows_what_the_whole_board_says() -> None:
    chance, made = random.Random(11), board()
    known: dict[str, dict[str, Any]] = {}
    for step in range(400):
        at_s, election = T0_S + step, f"e{chance.randrange(4)}"
        match chance.randrange(6):
            case 0:
                made.heard(fact(Elected(Token(step + 1), 0), at_s, election, ADA))
            case 1:
                made.heard(fact(Left(Token(step), Reason.LAPSED), at_s, election, ADA))
            case 2 | 3:
                made.heard(renewed(at_s, election, ADA, chance.uniform(0, 6)))
            case 4:
                there = [f"e{number}" for number in range(4) if chance.random() < 0.8]
                made.saw([status(name, BOB, step + 1, left_s=chance.uniform(0, 8)) for name in there], at_s)
            case _:
                if chance.random() < 0.3:  # Somebody came, and read all of it in between.
                    known = {row["election"]: dict(row) for row in made.as_json()["elections"]}
        if chance.random() < 0.5:
            merged(known, made.changes())
    merged(known, made.changes())
    assert still(known.values()) == still(made.as_json()["elections"])

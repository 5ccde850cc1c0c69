"""A plan's pictures on a terminal: a bar is as long as its part and begins where the one before ends, and the point that was chosen is marked."""

from itertools import pairwise

import pytest

from tenure.cli.plan_picture import ASCII, BLOCKS, Marks, bars, curve
from tenure.plan.whole import Disturbed, Plan, planned, timing_of

WIDTH = 80
LABEL = 16  # letters before the picture itself


def drawn(plan: Plan, marks: Marks = BLOCKS) -> list[str]:
    return bars(plan.budget, plan.rto_s, plan.timing.renew_every_ns / 1e9, WIDTH, marks)


def test_the_budget_of_the_design_is_drawn_to_scale_and_the_rto_is_marked() -> None:
    lines = drawn(planned(timing_of()))
    assert [line[:15].split() for line in lines[:6]] == [
        ["detect", "6", "s"], ["elect", "1", "s"], ["load", "2", "s"], ["warm", "13", "s"], ["discover", "5", "s"], ["total", "27", "s"]
    ]  # fmt: skip
    cells = [line[LABEL:] for line in lines[:6]]
    spans = [(row.index("█"), row.rindex("█") + 1) for row in cells]
    assert [end for _, end in spans[:-1]][:-1] == [begin for begin, _ in spans[:-1]][1:]
    assert spans[-1] == (0, spans[-2][1])
    second = (WIDTH - LABEL - 1) / 30
    for (begin, end), part_s in zip(spans, (6, 1, 2, 13, 5, 27), strict=True):
        assert end - begin == pytest.approx(part_s * second, abs=1)
    assert {row.index("┊") for row in cells} == {round(30 * second)}
    assert cells[-1].count("░") == pytest.approx(2 * second, abs=1)
    assert lines[-1].strip() == "RTO 30 s"


@pytest.mark.parametrize(
    "plan",
    [
        planned(timing_of(heartbeat=0.125), rto_s=3),
        planned(timing_of(heartbeat=0.0125), load_s=0, warm_s=0, discover_s=0.0001),
        planned(timing_of(heartbeat=3000), warm_s=123_456),
    ],
    ids=["three digits behind the point", "four of the total", "an hour and more"],
)
def test_every_bar_begins_where_the_one_before_ends_however_long_the_numbers_are(plan: Plan) -> None:
    lines = drawn(plan)
    parts = [line.index("█") for line in lines[:5] if "█" in line]
    ends = [line.rindex("█") + 1 for line in lines[:6] if "█" in line]
    assert lines[5].index("█") == parts[0], "the total begins with the first part"
    # A part that is too short for a column has one all the same.
    assert all(0 <= end - begin <= 1 for begin, end in zip(parts[1:], ends[:-2], strict=True))
    limits = {line.index("┊") for line in lines[:6] if "┊" in line}
    assert len(limits) <= 1
    assert max(map(len, lines)) <= WIDTH


def test_an_rto_that_is_missed_is_marked_within_the_bars() -> None:
    cells = [line[LABEL:] for line in drawn(planned(timing_of(), rto_s=5), ASCII)[:6]]
    second = (WIDTH - LABEL - 1) / 29
    assert cells[3].index("|") == round(5 * second)
    assert cells[3].index("|") < cells[3].index("#")


@pytest.mark.parametrize("heartbeat_s", [0.5, 2, 7])
def test_the_curve_falls_and_the_point_that_was_chosen_is_in_the_middle_of_it(heartbeat_s: float) -> None:
    plan = planned(timing_of(heartbeat=heartbeat_s))
    *rows, axis, scale = curve(plan.points, plan.chosen, WIDTH, BLOCKS)
    marked = [(number, row.index("◆")) for number, row in enumerate(rows) if "◆" in row]
    ((at_row, at_column),) = marked
    room = WIDTH - LABEL - 1
    assert at_column == pytest.approx(
        LABEL + (room - 1) / 2, abs=1
    )  # N x H from a quarter of it to four times it, by powers
    points = sorted((row.index("•") if "•" in row else at_column, number) for number, row in enumerate(rows))
    assert all(lower >= upper for (_, upper), (_, lower) in pairwise(points))
    assert 0 < at_row < len(rows) - 1
    assert axis.strip() == "└" + "─" * room
    missed_s = [float(word) for word in scale.split() if word != "s"]
    assert missed_s == pytest.approx([3 * heartbeat_s / 4, 3 * heartbeat_s, 12 * heartbeat_s], rel=0.01)


def test_the_axis_of_the_curve_is_straight_however_many_an_hour_there_are() -> None:
    plan = planned(timing_of(heartbeat=0.001), disturbed=Disturbed.by_profile("cross-region"))
    *rows, axis, _ = curve(plan.points, plan.chosen, WIDTH, BLOCKS)
    assert "1372900 an hour" in rows[4]
    assert {row.index("│") for row in rows} == {axis.index("└")}
    assert len(axis) <= WIDTH


def test_what_is_rarer_than_anybody_can_know_is_said_and_not_drawn() -> None:
    (line,) = curve((plan := planned(timing_of(heartbeat=3600))).points, plan.chosen, WIDTH, BLOCKS)
    assert line.startswith("nowhere from")

"""Bars on one line of time: they fit into the terminal, and show who led, who may have, and when nobody did."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.apps.history.told import TenureRecord, told
from tenure.cli.timeline import ASCII, Line, brief, lasted, seconds, span, timeline, why
from tenure.model import Holder, Incumbent, Token
from tests.history.making import BOB, T0_S, TRAITS, record, sighting

NOW_S = T0_S + 400


def tell(*records: object, incumbent: Incumbent | None = None) -> list[TenureRecord]:
    return told("jobs", records, TRAITS, incumbent, NOW_S)  # type: ignore[arg-type]


def text(line: Line) -> str:
    return "".join(part.text for part in line)


def drawn(tenures: list[TenureRecord], width: int = 80) -> list[str]:
    return [text(line) for line in timeline(tenures, NOW_S, width, ASCII)]


def test_one_after_the_other_with_nobody_in_between() -> None:
    tenures = tell(
        record(7, ended_s=T0_S + 100, reason="resigned"),
        record(8, BOB, T0_S + 200, ended_s=T0_S + 300, reason="deposed"),
        record(9, began_s=T0_S + 300),
        incumbent=Incumbent("jobs", BOB, Token(9)),
    )
    first, second, third, time_line = drawn(tenures, 80)
    assert first.startswith("7 ada/1  ######")
    assert first.split()[-1] == "resigned"
    assert "." in second
    assert second.index(".") < second.index("#")
    assert first.rstrip().count("#") < second.index("#")
    assert ">" in third
    assert "in office" in third
    assert "gap 1m40s" in second
    assert len(time_line.split()) == 2


def test_a_time_that_is_too_short_for_a_cell_is_seen_all_the_same() -> None:
    _, second, _ = drawn(
        tell(
            record(7, ended_s=T0_S + 399.9, reason="resigned"),
            record(8, BOB, T0_S + 399.95, ended_s=NOW_S, reason="lapsed"),
        )
    )
    assert ".#" in second


def test_where_others_led_in_between_nobody_is_not_drawn() -> None:
    records = record(7, ended_s=T0_S + 100, reason="resigned"), record(9, BOB, T0_S + 300, sighting=sighting(8, 100.0))
    _, second, _ = drawn(tell(*records))
    assert "." not in second.split("  ")[1]
    assert "#" in second


def test_one_that_vanished_is_drawn_with_the_time_in_which_it_did() -> None:
    first, _, _ = drawn(tell(record(7), record(8, BOB, T0_S + 200, sighting=sighting(7, 100.0))))
    bar = first.split("  ")[1]
    assert "#" in bar
    assert "?" in bar
    assert bar.rstrip() == "#" * bar.count("#") + "?" * bar.count("?")


def test_refused_writes_are_marked() -> None:
    (line, _) = drawn(tell(record(7, ended_s=NOW_S, reason="lapsed", refused_count=3, overstay_s=1.5)))
    assert "#x " in line
    assert line.split("  ")[-3:] == ["lapsed", "3 refused", "overstay 1.5s"]


_AT_S = st.floats(0, 1000, allow_nan=False)


@given(
    st.lists(st.tuples(_AT_S, st.none() | _AT_S, st.integers(0, 2)), min_size=1, max_size=12),
    st.integers(20, 250),
    st.text(max_size=60),
)
def test_whatever_the_clocks_say_every_line_fits(
    spans: list[tuple[float, float | None, int]], width: int, host: str
) -> None:
    holder = Holder(host, 4711, "f" * 16)
    records = [
        record(
            token,
            holder,
            T0_S + began_s,
            ended_s=None if ended_s is None else T0_S + ended_s,
            reason=None if ended_s is None else "resigned",
            refused_count=refused_count,
        )
        for token, (began_s, ended_s, refused_count) in enumerate(spans, 1)
    ]
    lines = drawn(tell(*records), width)
    assert len(lines) == len(records) + 1
    assert all(len(line) <= max(width, 50) for line in lines)
    assert all(line.isprintable() for line in lines)


def test_without_tenures_there_is_nothing_to_draw() -> None:
    assert timeline([], NOW_S, 80) == []


@pytest.mark.parametrize(
    ("value_s", "said"), [(None, "-"), (0.0042, "4ms"), (0.9, "900ms"), (3.25, "3.2s"), (65, "1m05s"), (-1.0, "0ms")]
)
def test_durations_are_for_people(value_s: float | None, said: str) -> None:
    assert seconds(value_s) == said


def test_what_vanished_lasted_from_so_long_to_so_long() -> None:
    first, second = tell(record(7), record(8, BOB, T0_S + 200, sighting=sighting(7, 100.0)))
    assert lasted(first, NOW_S) == "1m32s to 3m20s"
    assert span(second.gap) == "0ms to 1m48s"
    assert why(first) == "vanished"


def test_a_long_name_is_cut_in_the_middle_and_what_a_terminal_would_obey_is_replaced() -> None:
    assert brief(f"{'a' * 60}/4711/ffff") == "aaaaaaaaaaaaa…aaaaa/4711"
    assert "\x1b" not in brief("\x1b[31m/1/f")

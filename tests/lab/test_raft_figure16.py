"""Figure 16 again: what the paper concludes from it holds for ours, and its pictures can be read."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tenure.cli.lab_figure16 import picture
from tenure.errors import ConfigError
from tenure.lab.chart import spreads
from tenure.lab.raft.figure16 import GIVE_UP_S, LINES, Line, measure, seeds_of, trial
from tenure.lab.raft.paper import CLAIMS, compare, row

TRIALS = 60


@pytest.fixture(scope="module")
def lines() -> dict[tuple[int, int], Line]:
    return {(line.low_ms, line.high_ms): line for line in measure(TRIALS, jobs=1)}


def test_without_randomness_there_is_no_leader_for_over_ten_seconds(lines: dict[tuple[int, int], Line]) -> None:
    assert lines[150, 150].below(10_000) == 0
    assert lines[150, 150].gave_up == TRIALS


def test_a_little_randomness_ends_split_votes_and_more_improves_the_worst_case(
    lines: dict[tuple[int, int], Line],
) -> None:
    assert lines[150, 151].median_ms > 5 * lines[150, 155].median_ms
    assert lines[150, 155].worst_ms > lines[150, 200].worst_ms
    assert 200 < lines[150, 155].median_ms < 400  # the paper: 287


def test_shorter_timeouts_shorten_the_time_without_a_leader(lines: dict[tuple[int, int], Line]) -> None:
    means = [lines[span].mean_ms for span in ((12, 24), (25, 50), (50, 100), (100, 200), (150, 300))]
    assert means == sorted(means)
    assert 30 < means[0] < 60  # the paper: 35


def test_no_trial_is_shorter_than_half_the_least_timeout(lines: dict[tuple[int, int], Line]) -> None:
    assert all(line.times_ms[0] >= line.low_ms / 2 for line in lines.values())


def test_every_number_of_the_paper_has_ours_and_a_sentence_beside_it(lines: dict[tuple[int, int], Line]) -> None:
    differences = list(compare(lines.values()))
    assert len(differences) == len(CLAIMS) == 5
    for difference in differences:
        assert difference.sentence.endswith(".")
        if difference.statistic != "least":
            assert f"Ours is {difference.ours_ms:.0f} ms" in difference.sentence
    other = list(compare(lines.values(), broadcast_ms=5))
    assert "a broadcast time of 5 ms" in other[1].sentence


def test_a_trial_is_the_same_every_time_and_another_seed_is_another_trial() -> None:
    assert trial(150, 300, 1) == trial(150, 300, 1) != trial(150, 300, 2)


def test_the_picture_has_every_line_and_one_that_was_given_up_never_arrives(lines: dict[tuple[int, int], Line]) -> None:
    text = picture(list(lines.values()))
    ET.fromstring(text)  # noqa: S314  (we have written it ourselves)
    assert all(f">{low}-{high} ms<" in text for low, high in LINES)


def test_spreads_show_least_quartiles_median_and_greatest() -> None:
    (row, axis, named) = spreads([("x", [10, 100, 100, 300, 1000, 1000, 10_000])], 10, 10_000, 31)
    assert row == "x  ----------[===|=====]----------"
    assert axis[3] == axis[13] == axis[23] == "+"
    assert named.startswith("   10 ms")


@pytest.mark.parametrize(("trials", "broadcast_ms"), [(0, 15.0), (-1, 15.0), (10, 0.0), (10, float("nan")), (10, 1e9)])
def test_numbers_that_make_no_sense_are_refused(trials: int, broadcast_ms: float) -> None:
    with pytest.raises(ConfigError):
        next(measure(trials, 1, broadcast_ms))


def test_a_trial_that_is_given_up_counts_as_that_long() -> None:
    assert trial(150, 150, 3) == GIVE_UP_S * 1000


@pytest.mark.parametrize("span", [(150, 300), (12, 24)])
def test_the_page_has_the_numbers_that_the_command_prints(span: tuple[int, int]) -> None:
    page = Path(__file__).parents[2] / "docs" / "explanation" / "how-raft-elects.md"
    times_ms = (trial(*span, seed) for seed in seeds_of(*span, 0, 1000))
    assert row(Line(*span, tuple(sorted(times_ms)))) in page.read_text().splitlines()

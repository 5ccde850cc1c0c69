"""Figure 16 again: what the paper concludes from it holds for ours, and its pictures can be read."""

import random
import xml.etree.ElementTree as ET
from pathlib import Path
from statistics import fmean, median

import pytest

from tenure.cli.lab_figure16 import picture
from tenure.errors import ConfigError
from tenure.lab.chart import spreads
from tenure.lab.raft.figure16 import (
    BOTTOM,
    BROADCAST_MS,
    GIVE_UP_S,
    LINES,
    ONE_WAY,
    SERVERS,
    TOP,
    WRITE,
    Line,
    measure,
    seeds_of,
    trial,
)
from tenure.lab.raft.figure16 import TRIALS as DEFAULT_TRIALS
from tenure.lab.raft.paper import CLAIMS, compare, row

PAGES = Path(__file__).parents[2] / "docs" / "explanation"
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


def test_exactly_the_lines_of_the_paper_are_measured() -> None:
    assert TOP == ((150, 150), (150, 151), (150, 155), (150, 175), (150, 200), (150, 300))
    assert BOTTOM == ((12, 24), (25, 50), (50, 100), (100, 200), (150, 300))
    assert set(LINES) == {*TOP, *BOTTOM}
    assert (SERVERS, BROADCAST_MS, DEFAULT_TRIALS) == (5, 15.0, 1000)


def test_a_broadcast_takes_about_fifteen_milliseconds() -> None:
    """From the request of a candidate to the last answer of four: there, written, and back."""
    lots = random.Random(1)
    answers = (
        max(lots.uniform(*ONE_WAY) + lots.uniform(*WRITE) + lots.uniform(*ONE_WAY) for _ in range(SERVERS - 1))
        for _ in range(500)
    )
    assert median(answers) * BROADCAST_MS == pytest.approx(15, abs=1)


@pytest.fixture(scope="module")
def measured() -> dict[tuple[int, int], Line]:
    """All lines as the page has them, of a thousand trials each; but the one without randomness, whose trials are all given up."""
    spans = [span for span in LINES if span != (150, 150)]
    lines = {
        span: Line(*span, tuple(sorted(trial(*span, seed) for seed in seeds_of(*span, 0, 1000)))) for span in spans
    }
    given_up = (GIVE_UP_S * 1000.0,)
    assert {trial(150, 150, seed) for seed in seeds_of(150, 150, 0, 40)} == set(given_up)
    return {(150, 150): Line(150, 150, given_up * 1000), **lines}


def test_the_page_and_its_picture_are_what_the_command_measures(measured: dict[tuple[int, int], Line]) -> None:
    page = (PAGES / "how-raft-elects.md").read_text()
    lines = [measured[span] for span in LINES]
    assert [line.name for line in lines if row(line) not in page.splitlines()] == []
    assert (PAGES / "raft-figure16.svg").read_text() == picture(lines), "tenure lab raft --figure16 --svg …"


def test_what_the_page_says_beside_the_paper_is_what_was_measured(measured: dict[tuple[int, int], Line]) -> None:
    page = (PAGES / "how-raft-elects.md").read_text()
    for claim, difference in zip(CLAIMS, compare(measured.values()), strict=True):
        if claim.statistic != "least":
            beside = f"| {difference.line}, {claim.statistic} | {claim.theirs_ms:g} ms | {difference.ours_ms:.0f} ms |"
            assert beside in page
    shorter = [trial(12, 24, seed, 12.0) for seed in seeds_of(12, 24, 0, 1000)]
    assert f"with 12 ms ours is {fmean(shorter):.0f} ms" in page

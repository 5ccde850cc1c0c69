"""The pages on ways to elect: their pictures are what their commands draw, and their figures are those of the laboratory as it is."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tenure.lab.approaches.arena import APPROACHES, find, play
from tenure.lab.approaches.cast import COLUMNS
from tenure.lab.approaches.counting import PARTED, Cell, count
from tenure.lab.approaches.drawing import comparison_picture
from tenure.lab.approaches.marking import mark
from tenure.lab.approaches.sink import FENCES, OFF, OWN
from tenure.lab.approaches.tables import as_object, of_object
from tenure.plan.svg import svg

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "explanation"
MEASURED: list[dict[str, Any]] = json.loads((PAGES / "ways-to-elect.json").read_text())["cells"]
CELLS: dict[tuple[str, str], Cell] = {(one["approach"], one["fault"]): of_object(one) for one in MEASURED}
# The picture of a page → the command that draws it.
PICTURES = {
    "exactly-one.svg": "ours --seed 1 --check stale",
    "exactly-one-fenced.svg": "ours --seed 1 --check exclusion --fence own",
    "flag.svg": "flag",
    "cas-is-not-fencing.svg": "flag --cron",
    "redlock-pause.svg": "redlock --faults pause",
    "redlock-jump.svg": "redlock --faults jump --check exclusion",
    "at-most-once.svg": "ours --faults crash --check redone",
    "heartbeat.svg": "bully --seed 49 --faults partition --check exclusion",
    "lease.svg": "ours --seed 49 --faults partition",
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_its_command_draws(name: str, tmp_path: Path) -> None:
    drawn = tmp_path / name
    command = [sys.executable, "-m", "tenure", "lab", *PICTURES[name].split(), "--picture", str(drawn)]
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    again = f"tenure lab {PICTURES[name]} --picture docs/explanation/{name}"
    assert drawn.read_text() == (PAGES / name).read_text(), again


@pytest.mark.parametrize("name", PICTURES)
def test_a_page_shows_the_command_beside_its_picture(name: str) -> None:
    pages = [page for page in PAGES.glob("*.md") if f"]({name})" in page.read_text()]
    assert len(pages) == 1
    assert f"$ tenure lab {PICTURES[name]} --story" in pages[0].read_text()


@pytest.mark.parametrize("approach", APPROACHES)
def test_the_laboratory_plays_as_it_did_when_it_was_measured(approach: str) -> None:
    measured = {one["fault"]: one["mark"] for one in MEASURED if one["approach"] == approach}
    assert {fault: mark(approach, fault) for fault in (*COLUMNS, PARTED)} == measured, "python tools/measure_lab.py"


@pytest.mark.parametrize(
    ("approach", "fault"),
    [("bully", "partition"), ("raft", "partition"), ("tenure", "pause"), ("flag", "crash"), ("setnx-replica", PARTED)],
)
def test_cells_of_the_comparison_are_counted_again(approach: str, fault: str) -> None:
    (cell,) = count([approach], [fault], range(1000), jobs=1)
    assert as_object(cell) == as_object(CELLS[approach, fault]), "python tools/measure_lab.py"
    assert cell.counts


def test_every_cell_is_of_a_thousand_seeds_and_every_fence_is_there() -> None:
    assert set(CELLS) == {(approach, fault) for approach in APPROACHES for fault in (*COLUMNS, PARTED)}
    assert {cell.seeds for cell in CELLS.values()} == {1000}
    assert {fence for cell in CELLS.values() for fence, _ in cell.counts} == {*FENCES, ""}


def test_the_picture_is_what_was_measured() -> None:
    assert (PAGES / "ways-to-elect.svg").read_text() == svg(comparison_picture(list(CELLS.values())))


@pytest.mark.parametrize("name", ["ways-to-elect.md", "do-you-need-a-leader.md"])
def test_the_tables_of_a_page_are_what_was_measured(name: str, tmp_path: Path) -> None:
    copy = tmp_path / name
    copy.write_text((PAGES / name).read_text())
    subprocess.run([sys.executable, ROOT / "tools" / "generate_docs.py", copy], check=True)
    assert copy.read_text() == (PAGES / name).read_text(), "make docs"


def test_numbers_in_the_sentences_of_other_pages_are_what_was_measured() -> None:
    def said(page: str, *words: str) -> bool:
        text = " ".join((PAGES / page).read_text().split())
        return all(word in text for word in words)

    redone = [CELLS[name, "crash"].of("redone", fence) for name in APPROACHES if name != "flag" for fence in FENCES]
    assert said("at-most-once.md", f"in {min(redone)} to {max(redone)} of a thousand seeds")
    assert not any(CELLS[name, "crash"].of("twice", OWN) for name in APPROACHES)
    assert not any(
        CELLS["redlock", fault].of(what) for fault in ("partition", "crash") for what in ("exclusion", "stale")
    )
    assert not any(CELLS["redlock", fault].of("stale", OWN) for fault in COLUMNS)
    assert said("redlock.md", "of 1,000 seeds of each fault a stale write got past it in none")
    assert 85 <= CELLS["tenure", "pause"].of("exclusion", OWN) < 95
    assert not CELLS["tenure", "pause"].of("stale", OWN)
    assert said("why-exactly-one-is-impossible.md", "that happens in about ninety, and a stale write is taken in none")
    assert all(CELLS[name, "pause"].of("exclusion", OFF) for name in APPROACHES if name != "flag")
    both = [CELLS[name, "partition"].of("exclusion") for name in ("bully", "tenure")]
    assert said("lease-against-heartbeat.md", f"two at work in | {both[0]} | {both[1]} |")


def test_with_a_lease_who_is_cut_off_has_stopped_before_another_begins() -> None:
    """The table of the page, from the run that it shows."""
    played = play(find("tenure"), 49, ("partition",))
    told = [
        (entry.kind, round(entry.at / 1e9, 1)) for entry in played.history if entry.kind in {"granted", "leads", "left"}
    ]
    assert told[2:] == [("left", 26.9), ("granted", 28.1), ("leads", 28.3)]
    page = (PAGES / "lease-against-heartbeat.md").read_text()
    assert all(f"| {at_s} s |" in page for _, at_s in told[2:])

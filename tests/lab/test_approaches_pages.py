"""The pages on ways to elect: their pictures are what their commands draw, and their figures are counted again where that is cheap."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.lab.approaches.counting import count
from tenure.lab.approaches.sink import OFF
from tenure.lab.approaches.tables import cell_text

PAGES = Path(__file__).parents[2] / "docs" / "explanation"
# The picture of a page → the command that draws it.
PICTURES = {
    "exactly-one.svg": "ours --seed 1 --check stale",
    "exactly-one-fenced.svg": "ours --seed 1 --check exclusion --fence own",
    "flag.svg": "flag",
    "cas-is-not-fencing.svg": "flag --cron",
    "redlock-pause.svg": "redlock --faults pause",
    "redlock-jump.svg": "redlock --faults jump --check exclusion",
    "at-most-once.svg": "ours --faults crash --check redone",
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


def rows(title: str) -> dict[str, list[str]]:
    """The table below a heading of the comparison, by row."""
    text = (PAGES / "ways-to-elect.md").read_text()
    table = re.search(rf"## {title}.*?```text\n(.*?)```", text, re.DOTALL)
    assert table is not None
    head, *lines = (line.split() for line in table[1].splitlines())
    return {"": head, **{line[0]: line[1:] for line in lines}}


@pytest.mark.parametrize(
    ("title", "checker", "approach", "fault"),
    [
        ("Two at work at once", "exclusion", "bully", "partition"),
        ("A stale write was taken", "stale", "raft", "partition"),
        ("A stale write was taken", "stale", "tenure", "pause"),
        ("Nobody gets anything done", "stuck", "flag", "crash"),
    ],
)
def test_cells_of_the_comparison_are_counted_again(title: str, checker: str, approach: str, fault: str) -> None:
    shown = rows(title)
    (cell,) = count([approach], [fault], range(1000), jobs=1)
    assert cell_text(cell, checker) == shown[approach][shown[""].index(fault)], (
        "make the table anew: tenure lab compare"
    )
    assert cell.of(checker, OFF) > 0

"""``tenure lab bully|flag|setnx|redlock|compare`` as a person or a script meets them."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tenure.lab.approaches.arena import APPROACHES, find, play
from tenure.lab.approaches.cast import COLUMNS
from tenure.lab.approaches.counting import PARTED, Cell, smallest
from tenure.lab.approaches.drawing import comparison_picture, run_picture
from tenure.lab.approaches.sink import OFF, OWN
from tenure.lab.approaches.tables import broken_promises, cell_text, per_thousand, tables
from tenure.lab.approaches.telling import tell
from tenure.plan.svg import svg

COMMANDS = {"bully": "bully", "flag": "flag", "setnx": "setnx", "redlock": "redlock", "ours": "tenure"}


def lab(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tenure", "lab", *arguments], capture_output=True, text=True, check=False, timeout=100
    )


def cell(approach: str, fault: str, **counts: int) -> Cell:
    return Cell(approach, fault, 100, Counter({(OFF, name): number for name, number in counts.items()}))


def test_compare_has_a_row_for_each_approach_and_a_column_for_each_fault() -> None:
    run = lab("compare", "--seeds", "3", "--jobs", "1")
    assert (run.returncode, run.stderr) == (0, "")
    lines = run.stdout.splitlines()
    head = next(line.split() for line in lines if line.split()[:1] == ["none"])
    assert head == list(COLUMNS)
    for name in APPROACHES:
        assert sum(line.startswith(f"{name} ") for line in lines) >= 6, name


def test_compare_as_json_has_every_cell_with_every_fence(tmp_path: Path) -> None:
    chart = tmp_path / "compare.svg"
    run = lab(
        "compare",
        "--seeds",
        "4",
        "--approaches",
        "setnx,tenure",
        "--faults",
        "none,pause",
        "--json",
        "--chart",
        str(chart),
    )
    report = json.loads(run.stdout)
    assert run.returncode == 0
    assert report["broken"] == []
    found = [(one["approach"], one["fault"], one["seeds"]) for one in report["cells"]]
    assert found == [(row, column, 4) for row in ("setnx", "tenure") for column in ("none", "pause", PARTED)]
    assert set(report["cells"][1]["counts"]) == {"off", "own", "sink"}
    ET.fromstring(chart.read_text())  # noqa: S314  (we wrote it)


def test_several_faults_can_be_at_work_together() -> None:
    run = lab("setnx", "--seeds", "2", "--faults", "pause,jump", "--jobs", "1")
    assert run.returncode == 0
    assert "pause+jump" in run.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_the_story_that_an_approach_is_known_for_ends_with_its_moral_and_replays(name: str) -> None:
    run = lab(name, "--story")
    assert (run.returncode, run.stderr) == (0, "")
    *_, last = run.stdout.splitlines()
    assert last.startswith(f"replay: tenure lab {name} --seed ")
    again = lab(*last.removeprefix("replay: tenure lab ").split())
    assert again.stdout == run.stdout
    fault, checker = find(COMMANDS[name]).tale
    assert f"{checker} is broken at" in run.stdout
    assert fault in last


@pytest.mark.parametrize(("option", "name"), [("--cron", "flag-cron"), ("--replica", "setnx-replica")])
def test_a_variant_is_replayed_as_that_variant(option: str, name: str) -> None:
    run = lab(name.split("-", maxsplit=1)[0], option, "--story")
    assert f" {option} --seed " in run.stdout.splitlines()[-1]
    assert f"{find(name).tale[1]} is broken at" in run.stdout


def test_a_seed_that_fails_does_not_with_a_fence() -> None:
    seed = smallest(find("redlock"), ("pause",), OFF, "stale", range(100))
    bare = lab("redlock", "--seed", str(seed), "--faults", "pause", "--json")
    fenced = lab("redlock", "--seed", str(seed), "--faults", "pause", "--fence", "own", "--json")
    assert "stale" in [one["checker"] for one in json.loads(bare.stdout)["violations"]]
    assert "stale" not in [one["checker"] for one in json.loads(fenced.stdout)["violations"]]


def test_a_story_as_json_is_one_object_a_line() -> None:
    run = lab("bully", "--seed", "1", "--faults", "none", "--story", "--json")
    *entries, verdict = [json.loads(line) for line in run.stdout.splitlines()]
    assert {"at", "kind", "who", "number", "detail"} == set(entries[0])
    assert verdict["violations"] == []


def test_what_never_fails_is_said_in_one_line() -> None:
    run = lab("setnx", "--story", "--fence", "own", "--seeds", "20")
    assert run.returncode == 0
    assert run.stdout == "none of 20 seeds with pause and fence own: the sink took a stale write\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", "--seeds", "0"], "--seeds = 0"),
        (["compare", "--first-seed", "-1"], "--first-seed = -1"),
        (["compare", "--jobs", "0"], "--jobs = 0"),
        (["compare", "--faults", "rain"], "--faults = rain"),
        (["compare", "--approaches", "paxos"], "approach = paxos"),
        (["compare", "--chart", "x.gif"], "--chart = x.gif"),
        (
            ["compare", "--seeds", "1", "--faults", "none", "--approaches", "bully", "--chart", "/no/such/x.svg"],
            "cannot be written",
        ),
        (["redlock", "--seed", "-1"], "--seed = -1"),
        (["redlock", "--faults", "pause,"], "--faults = "),
        (["redlock", "--fence", "wall"], "--fence"),
        (["redlock", "--check", "luck"], "--check"),
        (["redlock", "--picture", "run.txt", "--story"], "--picture = run.txt"),
        (["setnx", "--seeds", "many"], "--seeds"),
        (["setnx", "--seed", "3", "--seeds", "5"], "--seed = given: cannot be given together with --seeds"),
        (["flag", "--seed", "3", "--first-seed", "5"], "cannot be given together with --first-seed"),
        (["bully", "--fence", "sink"], "--fence = sink: needs --story, --picture or --seed"),
        (["bully", "--check", "stuck"], "--check = stuck: needs --story, --picture or --seed"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], words: str) -> None:
    run = lab(*arguments)
    assert (run.returncode, run.stdout) == (2, "")
    assert words in run.stderr
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize("name", [*COMMANDS, "compare"])
def test_help_has_examples_and_says_what_it_is_for(name: str) -> None:
    run = lab(name, "--help")
    assert run.returncode == 0
    assert "Examples:" in run.stdout
    assert "For learning and measuring" in run.stdout


def test_a_picture_shows_who_worked_and_the_stale_write(tmp_path: Path) -> None:
    file = tmp_path / "run.svg"
    run = lab("redlock", "--story", "--picture", str(file))
    assert run.returncode == 0
    words = "".join(ET.fromstring(file.read_text()).itertext())  # noqa: S314  (likewise)
    assert "redlock: three of five Redis" in words
    assert "stale write taken" in words


def test_pictures_are_the_same_each_time() -> None:
    played = play(find("bully"), 0, ("partition",))
    assert svg(run_picture(find("bully"), played)) == svg(run_picture(find("bully"), played))


def test_words_of_pictures_are_ascii() -> None:
    for approach in APPROACHES.values():
        drawing = run_picture(approach, play(approach, 0, ("partition", "pause", "failover", "jump")))
        assert svg(drawing).isascii()
    assert svg(comparison_picture([cell("bully", "none"), cell("bully", "pause", stale=3)])).isascii()


def test_a_story_leaves_out_who_has_no_part_in_it() -> None:
    played = play(find("bully"), 3, ("failover", "jump"))
    assert played.plan.strikes
    assert not [line for line in tell(find("bully"), played) if "~" in line and "nothing fails" not in line]


@pytest.mark.parametrize(
    ("count", "seeds", "shown"), [(0, 100, "0"), (1, 100, "10"), (1, 10_000, "<1"), (1000, 1000, "1000")]
)
def test_what_happened_at_all_is_not_shown_as_nothing(count: int, seeds: int, shown: str) -> None:
    assert per_thousand(count, seeds) == shown


def test_a_cell_that_every_fence_leaves_alone_is_one_number() -> None:
    same = Cell("x", "pause", 10, Counter({(fence, "stale"): 1 for fence in ("off", "own", "sink")}))
    assert cell_text(same, "stale") == "100"
    assert cell_text(cell("x", "pause", stale=1), "stale") == "10/0/0"


def test_promises_that_are_broken_are_named() -> None:
    quiet = cell("bully", "none", exclusion=1)
    ours = Cell("tenure", "pause", 100, Counter({(OWN, "stale"): 1, (OFF, "stuck"): 1, (OFF, "stale"): 5}))
    assert broken_promises([cell("bully", "pause", exclusion=1), cell("tenure", "pause", exclusion=5)]) == []
    assert broken_promises([quiet, ours]) == [
        "bully, none, fence off: two were at work at once",
        "tenure, pause, fence own: the sink took a stale write",
        "tenure, pause, fence off: nobody gets anything done in the end",
    ]


def test_tables_can_do_without_a_partition() -> None:
    assert not any("side" in line for line in tables([cell("bully", "none")]))

"""``tenure lab raft`` as a person or a script meets it: exit codes, one line for bad input, JSON, pictures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.cli.lab_raft import command
from tenure.lab.raft.mutants import MUTANTS
from tenure.lab.raft.stories import STORIES


def lab(*arguments: str) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-m", "tenure", "lab", *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=100)


def test_seeds_without_a_violation_exit_0_and_say_so() -> None:
    run = lab("raft", "--seeds", "20", "--jobs", "2")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("20 seeds, ")
    assert run.stdout.splitlines()[-1] == "no violation"


def test_a_violation_exits_1_with_a_command_that_replays_it() -> None:
    run = lab("raft", "--seeds", "5", "--mutant", "two-votes", "--servers", "5")
    assert run.returncode == 1
    assert "VIOLATION election-safety" in run.stdout
    assert len(run.stdout.splitlines()) < 75
    replay = run.stdout.splitlines()[-1].removeprefix("replay: tenure lab ").split()
    again = lab(*replay)
    assert again.returncode == 1
    assert "election-safety is broken at" in again.stdout


def test_a_story_is_told_and_drawn(tmp_path: Path) -> None:
    run = lab("raft", "--story", "split-vote", "--svg", str(tmp_path / "split.svg"))
    assert run.returncode == 0
    assert "A LEADS term 2" in run.stdout
    assert (tmp_path / "split.svg").read_text().startswith("<svg ")
    told = json.loads(lab("raft", "--story", "split-vote", "--json").stdout)
    assert told["violations"] == []
    assert [server["server"] for server in told["servers"]] == list("ABCDE")


def test_the_figure_is_a_table_with_the_papers_numbers_beside_ours(tmp_path: Path) -> None:
    run = lab("raft", "--figure16", "--trials", "3", "--svg", str(tmp_path / "figure.svg"))
    assert run.returncode == 0
    assert "150-155 ms, median: the paper 287, here " in run.stdout
    assert (tmp_path / "figure.svg").read_text().startswith("<svg ")
    report = json.loads(lab("raft", "--figure16", "--trials", "3", "--json").stdout)
    assert len(report["lines"]) == 10
    assert [claim["paper_ms"] for claim in report["paper"]] == [10_000, 287, 513, 35, 152]


def test_stories_and_mutants_are_listed() -> None:
    assert [line.split()[0] for line in lab("raft", "--list").stdout.splitlines()] == list(STORIES)
    assert list(json.loads(lab("raft", "--list-mutants", "--json").stdout)) == list(MUTANTS)


def test_the_reference_knows_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "cli-lab-raft.md").read_text()
    options = [option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)]
    assert "--seeds" in options
    assert [option for option in options if f"`{option}" not in page] == []


def test_help_has_examples_and_says_that_production_rents() -> None:
    assert "tenure lab raft --story split-vote" in lab("--help").stdout
    shown = " ".join(lab("raft", "--help").stdout.split())
    assert "tenure lab raft --seeds 10000 --jobs 2" in shown
    assert "production rents" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nonsense",), "nonsense"),
        (("raft", "--story", "nonsense"), "split-vote"),
        (("raft", "--mutant", "nonsense"), "two-votes"),
        (("raft", "--seeds", "0"), "--seeds = 0"),
        (("raft", "--seeds", "many"), "many"),
        (("raft", "--seed", "-1"), "seed = -1"),
        (("raft", "--first-seed", "-1"), "--first-seed = -1"),
        (("raft", "--seed", "1", "--seeds", "2"), "together with"),
        (("raft", "--story", "partition", "--figure16"), "--figure16"),
        (("raft", "--jobs", "0"), "--jobs = 0"),
        (
            ("raft", "--without", "rain"),
            "--without = rain: must be one of loss, delay, duplicate, partition, one-way, pause, crash, torn, drift, jump, harry",
        ),
        (("raft", "--servers", "4"), "must be 3, 5 or 7"),
        (("raft", "--trials", "5"), "needs --figure16"),
        (("raft", "--svg", "x.svg"), "needs --story or --figure16"),
        (("raft", "--figure16", "--trials", "0"), "--trials = 0"),
        (("raft", "--figure16", "--broadcast", "nan"), "--broadcast"),
        (("raft", "--figure16", "--broadcast", "0"), "--broadcast"),
        (("raft", "--story", "partition", "--mutant", "two-votes"), "--mutant = two-votes: needs --seeds or --seed"),
        (("raft", "--kill", "--mutant", "two-votes"), "--mutant = two-votes: needs"),
        (("raft", "--list", "--first-seed", "3"), "--first-seed = 3: needs"),
        (("raft", "--figure16", "--without", "loss"), "--without = loss: needs"),
        (("raft", "--strikes", "1"), "--strikes = 1: needs --seed"),
        (("raft", "--seed", "7", "--strikes", "x"), "--strikes = x: must be numbers"),
        (("raft", "--seed", "7", "--strikes", "0"), "--strikes = 0: must lie between 1 and"),
        (("raft", "--seed", "7", "--strikes", "99999"), "--strikes = 99999: must lie between 1 and"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: tuple[str, ...], said: str) -> None:
    run = lab(*arguments)
    assert (run.returncode, run.stdout) == (2, "")
    assert len(run.stderr.splitlines()) == 1
    assert said in run.stderr


@pytest.mark.parametrize("path", ["no/such/folder/x.svg", "/"])
@pytest.mark.parametrize("what", [("--story", "split-vote"), ("--figure16", "--trials", "1000000")])
def test_a_picture_that_cannot_be_written_is_one_line_and_nothing_is_measured_for_it(
    what: tuple[str, ...], path: str
) -> None:
    run = lab("raft", *what, "--svg", path)
    assert (run.returncode, run.stdout) == (2, "")
    assert len(run.stderr.splitlines()) == 1
    assert f"--svg = {path}: cannot be written" in run.stderr

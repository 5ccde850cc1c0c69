"""``tenure sim`` as a person or a script meets it: exit codes, one line for bad input, JSON, stories."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.sim.mutants import MUTANTS


def tenure(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tenure", *arguments], capture_output=True, text=True, check=False, timeout=100
    )


def test_seeds_without_a_violation_exit_0_and_say_so() -> None:
    run = tenure("sim", "--seeds", "20", "--jobs", "2")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines()[0].startswith("20 seeds, ")
    assert run.stdout.splitlines()[-1] == "no violation"


def test_json_is_one_object_with_the_promised_fields() -> None:
    run = tenure("sim", "--seeds", "20", "--json")
    report = json.loads(run.stdout)
    assert run.returncode == 0
    assert report["seeds"] == 20
    assert report["tenures"] > 100
    assert report["violations"] == []
    assert report["elapsed_s"] > 0


def test_tenures_run_until_there_have_been_that_many() -> None:
    report = json.loads(tenure("sim", "--tenures", "300", "--json").stdout)
    assert 300 <= report["tenures"] < 600


def test_wild_clocks_overlap_and_exit_0() -> None:
    run = tenure("sim", "--seeds", "40", "--wild-clocks", "--json")
    report = json.loads(run.stdout)
    assert run.returncode == 0
    assert report["overlaps"] > 0
    assert report["violations"] == []


def test_a_violation_exits_1_with_the_smallest_seed_and_a_command_that_replays_it() -> None:
    run = tenure("sim", "--seeds", "20", "--mutant", "no-fence")
    assert run.returncode == 1
    replay = run.stdout.splitlines()[-1].removeprefix("replay: ").split()
    assert replay[:2] == ["tenure", "sim"]
    again = tenure(*replay[1:])
    assert again.returncode == 1
    assert "fence-holds is broken at" in again.stdout


def test_a_violation_in_json_names_seed_checker_and_replay() -> None:
    report = json.loads(tenure("sim", "--seeds", "20", "--mutant", "no-fence", "--json").stdout)
    assert {found["checker"] for found in report["violations"]} >= {"fence-holds"}
    assert report["smallest"]["seed"] == min(found["seed"] for found in report["violations"])
    assert report["smallest"]["replay"].startswith("tenure sim --seed ")


def test_story_is_a_table_with_a_line_per_thing_that_happened() -> None:
    run = tenure("sim", "--seed", "17", "--story")
    lines = run.stdout.splitlines()
    assert run.returncode == 0
    assert [cell.strip() for cell in lines[0].split("|")] == ["time", "leader", "store", "standby", "sink"]
    entries = tenure("sim", "--seed", "17", "--story", "--json").stdout.splitlines()
    assert len(lines) - 2 == len(entries) > 100
    assert {"at", "kind", "who", "token", "number", "note", "election"} == set(json.loads(entries[0]))


def test_show_prints_what_the_seed_draws() -> None:
    run = tenure("sim", "--seed", "17", "--show")
    assert run.returncode == 0
    assert "clock_ppm:" in run.stdout
    assert json.loads(tenure("sim", "--seed", "17", "--show", "--json").stdout)["seed"] == 17


def test_list_mutants_is_one_name_a_line() -> None:
    assert tenure("sim", "--list-mutants").stdout.splitlines() == list(MUTANTS)


def test_a_script_runs_and_one_that_differs_exits_1(tmp_path: Path) -> None:
    story = tmp_path / "story.txt"
    story.write_text("# Standing claims.\nstand at=0 → claim 1 bid=1\n", encoding="utf-8")
    assert tenure("sim", "--script", str(story)).returncode == 0
    story.write_text("# Standing does nothing.\nstand at=0 → —\n", encoding="utf-8")
    differs = tenure("sim", "--script", str(story))
    assert differs.returncode == 1
    assert "DIFFERS" in differs.stdout
    assert len(json.loads(tenure("sim", "--script", str(story), "--json").stdout)["mismatches"]) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sim", "--seed", "-1"), "seed = -1"),
        (("sim", "--seed", str(2**63)), "must lie between 0 and"),
        (("sim", "--seed", "many"), "many"),
        (("sim", "--seeds", "0"), "--seeds = 0"),
        (("sim", "--tenures", "0"), "--tenures = 0"),
        (("sim", "--seeds", "5", "--tenures", "5"), "--tenures"),
        (("sim", "--seed", "5", "--seeds", "5"), "--seeds"),
        (("sim", "--jobs", "0"), "--jobs = 0"),
        (("sim", "--mutant", "nonsense"), "nonsense"),
        (("sim", "--without", "rain"), "rain"),
        (("sim", "--candidates", "1"), "candidates = 1"),
        (("sim", "--ttl", "1", "--heartbeat", "2"), "misses x renew_every < ttl"),
        (("sim", "--ttl", "-3"), "ttl = -3 s: must be more than 0"),
        (("sim", "--ttl", "nan"), "nan"),
        (("sim", "--ttl", "1e300"), "1e+300"),
        (("sim", "--ttl", "1e-8"), "0.001 s <= ttl"),
        (("sim", "--misses", "1" + "0" * 400), "misses"),
        (("sim", "--script", "/dev/null"), "regular file"),
        (("sim", "--seed", "1", "--first-seed", "3"), "--first-seed"),
        (("sim", "--seed", "1", "--story", "--jobs", "0"), "--jobs = 0"),
        (("sim", "--misses", "0"), "misses = 0"),
        (("sim", "--story"), "needs --seed"),
        (("sim", "--script", "no/such/script"), "no/such/script"),
        (("sim", "--no-such-option"), "--no-such-option"),
        (("no-such-command",), "no-such-command"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: tuple[str, ...], said: str) -> None:
    run = tenure(*arguments)
    assert run.returncode == 2
    assert run.stdout == ""
    assert len(run.stderr.splitlines()) == 1
    assert said in run.stderr


@pytest.mark.parametrize("content", [b"\xff\xfe\x00rubbish", b"", b"dance at=0 \xe2\x86\x92 claim 1\n", b"stand\n"])
def test_an_unreadable_script_is_one_line_and_exit_code_2(tmp_path: Path, content: bytes) -> None:
    story = tmp_path / "bad.txt"
    story.write_bytes(content)
    run = tenure("sim", "--script", str(story))
    assert run.returncode == 2
    assert len(run.stderr.splitlines()) == 1
    assert "bad.txt" in run.stderr


def test_help_has_examples_and_exit_codes_and_version_is_told() -> None:
    assert "Exit codes" in tenure("--help").stdout
    assert "tenure sim --seed 17 --story" in tenure("sim", "--help").stdout
    assert tenure("--version").stdout.startswith("tenure, version ")


def test_help_imports_neither_asyncio_nor_the_simulator() -> None:
    loaded = "import sys; sys.argv = ['tenure', '--help']\nfrom tenure.cli.main import main\ntry: main()\nfinally: print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout.split()
    assert "click" in modules
    assert not {"asyncio", "anyio", "rich", "tenure.sim"} & set(modules)


def test_output_that_cannot_be_written_is_one_line_and_exit_code_74() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        run = subprocess.run(
            [sys.executable, "-m", "tenure", "sim", "--seed", "1", "--show"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert run.returncode == 74
    assert len(run.stderr.splitlines()) == 1


def test_a_reader_that_goes_away_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tenure", "sim", "--seed", "17", "--story"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as story:
        assert story.stdout is not None
        assert story.stderr is not None
        story.stdout.readline()
        story.stdout.close()
        assert story.stderr.read() == ""

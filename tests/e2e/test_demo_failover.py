"""``tenure demo failover``: what it says it measures, it measures; and a run that shows something else says so."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenure.cli.demo.failover.command import QUICK
from tenure.cli.demo.failover.judge import judge
from tenure.cli.demo.failover.setting import SCENARIOS, WORKERS, Pace
from tenure.cli.demo.failover.wording import line, opening, report
from tenure.cli.demo.failover.worker import open_record
from tenure.cli.demo.happening import Happening, What
from tenure.plan import Budget
from tenure.timing import Timing

COMMAND = [sys.executable, "-m", "tenure", "demo", "failover"]
S = 10**9


def test_the_budget_of_the_design_is_27_of_30_seconds() -> None:
    budget = Budget.of(Timing.of())
    parts = (budget.detect_s, budget.elect_s, budget.load_s, budget.warm_s, budget.discover_s)
    assert parts == (6, 1, 2, 13, 5)
    assert (budget.total_s, Pace(1).cold, Pace(1).reserve_s) == (27, budget, 3)


def test_what_a_worker_notes_is_no_wreck_after_a_power_cut(tmp_path: Path) -> None:
    with closing(open_record(tmp_path / "record.db")) as record:
        asked = [record.execute(f"PRAGMA {what}").fetchone()[0] for what in ("journal_mode", "synchronous")]
    assert asked == ["wal", 1]  # NORMAL. With OFF, pages could reach the disk before the log that they are in.


def test_real_leaders_are_killed_and_frozen_and_every_failover_fits(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    played = subprocess.run(
        [*COMMAND, "--quick", "--json"], capture_output=True, text=True, env=environment, check=False
    )
    *happened, figures = [json.loads(line) for line in played.stdout.splitlines()]
    assert figures["problems"] == []
    assert played.returncode == 0, played.stderr
    assert [(run["fault"], run["standby"]) for run in figures["runs"]] == [
        (one.fault, one.standby) for one in SCENARIOS
    ]
    for run, scenario in zip(figures["runs"], SCENARIOS, strict=True):
        cold, measured = run["standby"] == "cold", run["measured"]
        assert measured["load_s"] + measured["warm_s"] > 3.7 if cold else measured["load_s"] + measured["warm_s"] < 0.5
        told = [said for said in happened if said["act"] == scenario.number]
        renewed = [said["sent_ns"] for said in told if (said["who"], said["what"]) == ("A", What.RENEWED)]
        granted = [said["sent_ns"] for said in told if (said["who"], said["what"]) == ("B", What.GRANTED)]
        in_office_ns = granted[0] + round(measured["elect_s"] * S)
        assert in_office_ns - renewed[-1] >= Pace(QUICK).timing.ttl_ns, "no lease was taken before it ended"
        assert measured["total_s"] <= run["limit_s"]
        assert all(worker["done"] == worker["due"] >= 10 for worker in run["workers"])
        assert run["stale_tried"] == (2 if run["fault"] == "frozen" else 0)
        assert run["stale_accepted"] == 0
    assert {said["what"] for said in happened} >= {"killed", "frozen", "woken", "refused", "answered", "audited"}
    assert list(tmp_path.iterdir()) == []


def test_whoever_is_interrupted_leaves_nothing_behind(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([*COMMAND, "--json"], stdout=subprocess.PIPE, text=True, env=environment) as played:
        assert played.stdout
        pids = list[int]()
        while len(pids) < len(SCENARIOS) * len(WORKERS):
            said = json.loads(played.stdout.readline())
            pids += [os.pidfd_open(said["pid"])] if said["what"] == What.STARTED else []
        played.send_signal(signal.SIGTERM)
        assert played.wait(20) == 128 + signal.SIGTERM
        played.stdout.read()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            signal.pidfd_send_signal(pid, 0)
        os.close(pid)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--ttl", "3s"], "No such option"),
        (["now"], "unexpected extra argument"),
        (["--quick=1"], "does not take a value"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(options: list[str], says: str) -> None:
    played = subprocess.run([*COMMAND, *options], capture_output=True, text=True, check=False)
    assert (played.returncode, played.stdout) == (2, "")
    assert says in played.stderr
    assert played.stderr.count("\n") == 1
    before = subprocess.run([*COMMAND[:-1], "--ttl", "3s", "failover"], capture_output=True, text=True, check=False)
    assert before.returncode == 2
    assert "--ttl = given: belongs to tenure demo" in before.stderr


def story(act: int, **changes: Any) -> list[Happening]:
    """A failover that fits, as a history: struck at 100 s, found again as quickly as it may be."""
    frozen, warm = act in (2, 4), act > 2
    ready_ns = 108 * S if warm else 123 * S
    executions = [[due_ns, due_ns, 1] for due_ns in range(90 * S, 140 * S, S // 10)]
    told: dict[str, Any] = {"executions": executions, "orders": [["a", 1], ["b", 2]], "late": What.REFUSED, **changes}
    found = [
        Happening(100 * S - 1, act, "A", What.RENEWED, 1, more={"sent_ns": 100 * S - 2}),
        Happening(100 * S, act, "A", What.FROZEN if frozen else What.KILLED, 1),
        Happening(108 * S, act, "B", What.GRANTED, 2, more={"sent_ns": 108 * S}),
        Happening(108 * S, act, "B", What.LEADS, 2),
        Happening(ready_ns, act, "B", What.LOADED),
        Happening(ready_ns, act, "B", What.WARMED, 2),
        *(Happening(ready_ns + S, act, "B", What.DELIVERED, 2, more={"worker": name}) for name in WORKERS),
        Happening(ready_ns + told.get("found_after", S), act, "client", What.ANSWERED, 2),
    ]
    if frozen:
        late = told["late"]
        found += [
            Happening(ready_ns + 2 * S, act, "A", late, 1, more={"worker": name, "highest": 2}) for name in WORKERS
        ]
    audit = {"executions": told["executions"], "orders": told["orders"], "highest": 2}
    return found + [Happening(ready_ns + 3 * S, act, name, What.AUDITED, more=audit) for name in WORKERS]


def whole(**changes: Any) -> list[Happening]:
    return [happening for act in (1, 2, 3, 4) for happening in story(act, **(changes if act == 2 else {}))]


def test_a_history_that_fits_is_judged_by_its_instants() -> None:
    verdict = judge(whole(), [], Pace(1))
    assert verdict.problems == []
    cold, *_, warm = verdict.figures
    assert (round(cold.unnoticed_s), round(cold.measured.detect_s), cold.total_s) == (2, 6, 24)
    assert (cold.measured.load_s, cold.measured.warm_s, cold.measured.discover_s) == (15, 0, 1)
    assert (warm.total_s, warm.measured.load_s) == (9, 0)
    assert cold.throughput[0].each_second == [10] * 24
    assert "Stale orders: 4 tried, 0 accepted" in report(verdict)


GAP = [[due_ns, due_ns, 1] for due_ns in range(90 * S, 140 * S, S // 10) if not 105 * S <= due_ns < 106 * S]
SLOW = [[due_ns, due_ns + 2 * S, 1] for due_ns in range(90 * S, 140 * S, S // 10)]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"found_after": 8 * S}, "31.00 s without a leader, and 30.00 s were to be had"),
        ({"late": What.DELIVERED}, "2 stale orders were accepted"),
        ({"orders": [["a", 2], ["b", 1]]}, "2 stale orders were accepted"),
        ({"executions": GAP}, "w1 did 230 of 240 executions"),
        ({"executions": SLOW}, "w1 did 0 of 240 executions"),
        ({"executions": []}, "w1 did 0 of 0 executions"),
    ],
)
def test_whatever_does_not_fit_is_said_and_fails(changes: dict[str, Any], problem: str) -> None:
    verdict = judge(whole(**changes), [], Pace(1))
    assert any(problem in said for said in verdict.problems), verdict.problems
    assert verdict.exit_code == 1


def without(what: What) -> Sequence[Happening]:
    return [found for found in whole() if found.act != 2 or found.what is not what]


@pytest.mark.parametrize(
    ("history", "problem"),
    [
        (without(What.FROZEN), "frozen cold: nobody took over"),
        (without(What.LEADS), "frozen cold: nobody took over"),
        (without(What.ANSWERED), "frozen cold: nobody took over"),
        (without(What.REFUSED), "no stale order was tried"),
        (without(What.AUDITED), "was never looked at"),
    ],
)
def test_what_did_not_happen_was_not_shown(history: Sequence[Happening], problem: str) -> None:
    verdict = judge(history, [], Pace(1))
    assert any(problem in said for said in verdict.problems)
    assert judge([], ["killed cold: interrupted"], Pace(1)).exit_code == 1
    assert replace(verdict, problems=[]).exit_code == 0


def shapes(lines: Sequence[str]) -> set[str]:
    """Lines without what differs from run to run: numbers, and gaps."""
    return {re.sub(r"#(?: #)+", "#", " ".join(re.sub(r"\d+(?:\.\d+)?", "#", line).split())) for line in lines}


def test_the_recording_in_the_docs_is_in_the_words_of_today() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "failover.md").read_text()
    recorded = page.partition("```text\n")[2].partition("```")[0].splitlines()
    spoken = [words for happening in whole() if (words := line(happening)) is not None]
    today = shapes([*opening(Pace(1)), *report(judge(whole(), [], Pace(1)))])
    said = {shape.partition(" s ")[2] for shape in shapes(recorded) if shape.startswith("# s ")}
    assert said >= shapes([words for words in spoken if "LEADS" in words or "REFUSED" in words])
    assert shapes([text for text in recorded if not re.match(r" *[0-9.]+ s  ", text)]) == today

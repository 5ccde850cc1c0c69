"""``tenure plan --check`` beside real leaders in other processes, one of which is killed."""

import json
import os
import signal
from pathlib import Path

from tests.history.test_history_command import DEADLINE_S, TTL_S, Desk, leave
from tests.processes import check_eventually


def test_a_plan_is_compared_with_a_leader_that_was_killed_and_one_that_resigned(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    with desk.started() as leader:
        desk.await_leader(leader)
        with desk.started() as standby:
            check_eventually(lambda: f"/{standby.pid}/" in desk.run("status", "jobs", "--json").stdout)
            os.kill(leader.pid, signal.SIGKILL)
            leader.wait(DEADLINE_S)
            desk.await_leader(standby)
            leave(standby)
    run = desk.run("plan", "--check", "jobs", "-L", f"{TTL_S}s", "--elect", "30s", "--rto", "60s", "--json")
    assert run.stderr == ""
    told = json.loads(run.stdout)["check"]
    killed, handed, elect = told["measured"]
    assert (killed["count"], handed["count"], elect["count"]) == (1, 0, 1)
    assert killed["planned_s"] == TTL_S + 30  # by the --elect that was given
    assert killed["longest_s"] > 0
    assert elect["kept"]
    assert told["ttls_s"] == [TTL_S]
    assert told["rto"]["changes"][0]["reason"] == "vanished"
    assert (run.returncode == 0) == told["kept"]
    words = desk.run("plan", "--check", "jobs").stdout
    assert "jobs at sqlite://" in words
    assert "They led with L = 1 s, and this plan is for 8 s." in words


def test_an_election_that_was_never_held_is_refused_with_the_one_that_was_meant(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk.run("run", "jobs", "--once", "--", "true").returncode == 0
    run = desk.run("plan", "--check", "job")
    assert (run.returncode, run.stdout) == (2, "")
    assert "was never held" in run.stderr
    assert "did you mean 'jobs'?" in run.stderr

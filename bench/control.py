"""The time without a leader, by ``tenure demo failover``: real processes, each part beside its plan."""

import json
import subprocess
import sys

from rows import Figures, exactly


def figures() -> Figures:
    command = [sys.executable, "-m", "tenure", "demo", "failover", "--json"]
    played = subprocess.run(command, capture_output=True, text=True, check=False)
    assert played.stdout, played.stderr
    verdict = json.loads(played.stdout.splitlines()[-1])
    for run in verdict["runs"]:
        name, measured = f"failover, {run['fault']}, {run['standby']} standby", run["measured"]
        yield f"{name}: seconds without a leader", measured["total_s"], run["limit_s"], "s", False
        done, due = (sum(worker[what] for worker in run["workers"]) for what in ("done", "due"))
        yield exactly(f"{name}: executions of workers meanwhile", done, due)
    tried, accepted = (sum(run[f"stale_{what}"] for run in verdict["runs"]) for what in ("tried", "accepted"))
    yield "failover: stale orders tried", tried, 4, "", True
    yield exactly("failover: stale orders accepted", accepted, 0)
    yield exactly("failover: things that the demo could not show", len(verdict["problems"]), 0)

"""Every figure of the project in one table: ``make bench``, or ``python bench/run.py [NAME …]`` for some of them.

A figure is a ratio within one run wherever that is possible: these machines are noisy, and rounds are interleaved so
that noise strikes both sides. Exit code 1 if a figure misses its goal or could not be measured, which is then said in its
place: an engine or a peer that is not on this machine makes no figure better.
"""

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from subprocess import SubprocessError

sys.path.insert(0, str(Path(__file__).parent))

import compare
import consul
import control
import cron
import etcd
import facts
import fence
import files
import history
import http_sink
import imports
import kubernetes
import lab
import machine
import metrics
import mysql
import office
import page
import plan
import postgresql
import redis_store
import serve
import shards
import simulator
import sql_sinks
import sqlite
import update
import zookeeper
from rows import Figure, Figures, NotMeasured, exit_code, figure_of, table
from sides import forget_left_out

from tenure.errors import TenureError

BENCHES: dict[str, Callable[[], Figures]] = {
    "compare": compare.figures,
    "consul": consul.figures,
    "control": control.figures,
    "cron": cron.figures,
    "etcd": etcd.figures,
    "facts": facts.figures,
    "fence": fence.figures,
    "files": files.figures,
    "history": history.figures,
    "http_sink": http_sink.figures,
    "imports": imports.figures,
    "kubernetes": kubernetes.figures,
    "lab": lab.figures,
    "machine": machine.figures,
    "metrics": metrics.figures,
    "mysql": mysql.figures,
    "office": office.figures,
    "plan": plan.figures,
    "page": page.figures,
    "redis": redis_store.figures,
    "postgresql": postgresql.figures,
    "serve": serve.figures,
    "shards": shards.figures,
    "simulator": simulator.figures,
    "sql_sinks": sql_sinks.figures,
    "sqlite": sqlite.figures,
    "update": update.figures,
    "zookeeper": zookeeper.figures,
}


def measure(name: str) -> list[Figure | NotMeasured]:
    """Run one bench. What it told before it failed counts, and the rest is not measured."""
    print(f"running {name} …", file=sys.stderr)
    rows: list[Figure | NotMeasured] = []
    try:
        for row in BENCHES[name]():
            # One by one: what was told before a failure stays.
            rows.append(row if isinstance(row, NotMeasured) else figure_of(row))  # noqa: PERF401
    except (AssertionError, OSError, SubprocessError, TenureError) as error:
        traceback.print_exc()
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        rows.append(NotMeasured(f"{name}: every figure that has no line here", reason))
    missing = [NotMeasured(f"{name}: every figure that needs it", reason) for reason in forget_left_out()]
    if not rows and not missing:
        rows.append(NotMeasured(f"{name}: every figure", "it told of none"))
    return rows + missing


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        print(f"bench: {unknown[0]}: must be one of {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    rows = [row for name in names or BENCHES for row in measure(name)]
    for line in table(rows):
        print(line)
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

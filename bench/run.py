"""Every figure of the project in one table: ``make bench``, or ``python bench/run.py [NAME …]`` for some of them.

A figure is a ratio within one run wherever that is possible: these machines are noisy, and rounds are interleaved so
that noise strikes both sides. Exit code 1 if a figure misses its goal.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import consul
import etcd
import fence
import files
import http_sink
import imports
import kubernetes
import machine
import mysql
import office
import postgresql
import redis_store
import simulator
import sql_sinks
import sqlite
import zookeeper


class Figure(NamedTuple):
    what: str
    value: float
    goal: float
    unit: str
    at_least: bool = False

    @property
    def reached(self) -> bool:
        return self.value >= self.goal if self.at_least else self.value <= self.goal


BENCHES: dict[str, Callable[[], Iterator[tuple[str, float, float, str, bool]]]] = {
    "consul": consul.figures,
    "etcd": etcd.figures,
    "fence": fence.figures,
    "files": files.figures,
    "http_sink": http_sink.figures,
    "imports": imports.figures,
    "kubernetes": kubernetes.figures,
    "machine": machine.figures,
    "mysql": mysql.figures,
    "office": office.figures,
    "redis": redis_store.figures,
    "postgresql": postgresql.figures,
    "simulator": simulator.figures,
    "sql_sinks": sql_sinks.figures,
    "sqlite": sqlite.figures,
    "zookeeper": zookeeper.figures,
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        print(f"bench: {unknown[0]}: must be one of {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    figures = []
    for name in names or BENCHES:
        print(f"running {name} …", file=sys.stderr)
        figures += [Figure(*figure) for figure in BENCHES[name]()]
    width = max((len(figure.what) for figure in figures), default=0)  # none if an engine is missing
    print(f"{'figure':<{width}}  {'measured':>14}  {'goal':>14}")
    for figure in figures:
        sign = ">=" if figure.at_least else "<="
        verdict = "reached" if figure.reached else "MISSED"
        print(
            f"{figure.what:<{width}}  {figure.value:>10.2f} {figure.unit:<3}  {sign} {figure.goal:>7g} {figure.unit:<3}  {verdict}"
        )
    return 0 if all(figure.reached for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

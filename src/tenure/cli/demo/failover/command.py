"""The command ``tenure demo failover``."""

import json
import threading

import click

from tenure.cli.demo.failover.director import play
from tenure.cli.demo.failover.judge import Verdict, judge
from tenure.cli.demo.failover.setting import Pace
from tenure.cli.demo.failover.wording import line, opening, report
from tenure.cli.demo.happening import Happening
from tenure.cli.demo.show import Json

QUICK = 0.25  # A lease of 2 s: shorter ones are lost on a busy machine, by nobody's fault.


class _Plain:
    """A line for whatever is of interest."""

    def __init__(self) -> None:
        self._began_ns: int | None = None

    def happened(self, happening: Happening) -> None:
        self._began_ns = happening.at_ns if self._began_ns is None else self._began_ns
        words = line(happening)
        if words is not None:
            click.echo(f"{(happening.at_ns - self._began_ns) / 1e9:7.3f} s  {words}")

    def waiting(self, meaning: str) -> None:
        pass


class _Together:
    """What several stories are shown to at once."""

    def __init__(self, show: Json | _Plain) -> None:
        self._show, self._lock = show, threading.Lock()

    def happened(self, happening: Happening) -> None:
        with self._lock:
            self._show.happened(happening)

    def waiting(self, meaning: str) -> None:
        pass


def run(*, quick: bool, as_json: bool) -> int:
    """Play it, show it, and return the exit code."""
    pace = Pace(QUICK if quick else 1)
    if not as_json:
        click.echo("\n".join(opening(pace)))
    history, broken = play(pace, _Together(Json() if as_json else _Plain()))
    verdict: Verdict = judge(history, broken, pace)
    if as_json:
        click.echo(json.dumps(verdict.as_object()))
    else:
        click.echo("\n".join(report(verdict)))
    return verdict.exit_code

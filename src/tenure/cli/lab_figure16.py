"""``tenure lab raft --figure16``: the table, the spreads as text, the differences from the paper, and the picture."""

import json
import time
from pathlib import Path
from typing import Final

import click

from tenure.cli.lab_picture import write
from tenure.cli.output import aligned
from tenure.cli.progress import progress
from tenure.lab.chart import Panel, cdf_svg, spreads
from tenure.lab.raft.figure16 import BOTTOM, BROADCAST_MS, GIVE_UP_S, LINES, TOP, Line, measure
from tenure.lab.raft.paper import Difference, compare

_LOW_MS: Final = 10.0
_HEAD: Final = ("election timeout", "least", "median", "mean", "99 %", "worst", "no leader")


def run_figure16(trials: int, broadcast: float | None, jobs: int, svg: Path | None, *, as_json: bool) -> int:
    """Measure and show."""
    broadcast_ms = BROADCAST_MS if broadcast is None else broadcast
    began = time.monotonic()
    lines: list[Line] = []
    with progress("lines", len(LINES), hidden=as_json) as bar:
        for line in measure(trials, jobs, broadcast_ms):
            lines.append(line)
            bar.advance(1)
    elapsed_s = time.monotonic() - began
    differences = list(compare(lines, broadcast_ms))
    if svg is not None:
        write("--svg", svg, picture(lines).encode())
    if as_json:
        click.echo(json.dumps(_report(lines, differences, trials, broadcast_ms, elapsed_s)))
    else:
        click.echo("\n".join(_text(lines, differences, trials, broadcast_ms, elapsed_s)))
    return 0


def picture(lines: list[Line]) -> str:
    """Return the figure as the paper draws it: what share of the trials had a leader by when."""
    by_span = {(line.low_ms, line.high_ms): line for line in lines}
    panels = [
        Panel(title, [(by_span[span].name, by_span[span].times_ms) for span in spans], low_ms, high_ms)
        for title, spans, low_ms, high_ms in (
            ("More randomness: fewer split votes", TOP, 50.0, GIVE_UP_S * 1000 - 1.0),
            ("Shorter timeouts: a crash is noticed sooner", BOTTOM, _LOW_MS, 1000.0),
        )
    ]
    return cdf_svg(panels, "Figure 16 of the Raft paper, measured again: the time until a crashed leader is replaced")


def _text(
    lines: list[Line], differences: list[Difference], trials: int, broadcast_ms: float, elapsed_s: float
) -> list[str]:
    rows = [
        [
            line.name,
            *(
                _ms(value)
                for value in (line.times_ms[0], line.median_ms, line.mean_ms, line.quantile_ms(0.99), line.worst_ms)
            ),
            f"{line.gave_up / trials:.0%}" if line.gave_up else "-",
        ]
        for line in lines
    ]
    low, high = _LOW_MS, GIVE_UP_S * 1000.0
    return [
        f"Time until a crashed leader is replaced, in ms: {trials} trials a line, five servers, broadcast time {broadcast_ms:g} ms",
        "",
        aligned([list(_HEAD), *rows]),
        "",
        *spreads([(line.name, line.times_ms) for line in lines], low, high),
        "half of all trials lie between [ and ], | is the median",
        "",
        *(line for difference in differences for line in (*_told(difference), "")),
        f'"no leader": not within {GIVE_UP_S} s; such a trial counts as {GIVE_UP_S} s. Measured in {elapsed_s:.1f} s.',
    ]


def _told(difference: Difference) -> tuple[str, str]:
    theirs = f"the paper {'over ' if difference.statistic == 'least' else ''}{difference.theirs_ms:g}"
    return (
        f"{difference.line}, {difference.statistic}: {theirs}, here {_ms(difference.ours_ms)} ms",
        f"  {difference.sentence}",
    )


def _ms(value: float) -> str:
    return f"{value:.0f}" if value < GIVE_UP_S * 1000 else f">{GIVE_UP_S * 1000}"


def _report(
    lines: list[Line], differences: list[Difference], trials: int, broadcast_ms: float, elapsed_s: float
) -> dict[str, object]:
    return {
        "trials": trials,
        "broadcast_ms": broadcast_ms,
        "give_up_s": GIVE_UP_S,
        "elapsed_s": round(elapsed_s, 3),
        "lines": [
            {
                "low_ms": line.low_ms,
                "high_ms": line.high_ms,
                "least_ms": line.times_ms[0],
                "median_ms": line.median_ms,
                "mean_ms": line.mean_ms,
                "p99_ms": line.quantile_ms(0.99),
                "worst_ms": line.worst_ms,
                "gave_up": line.gave_up,
            }
            for line in lines
        ],
        "paper": [
            {
                "line": one.line,
                "statistic": one.statistic,
                "paper_ms": one.theirs_ms,
                "ours_ms": one.ours_ms,
                "difference": one.sentence,
            }
            for one in differences
        ],
    }

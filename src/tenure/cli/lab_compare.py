"""``tenure lab compare``: every approach under every fault, in one table."""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from tenure.cli.lab_asking import check_jobs, check_picture, chosen, save
from tenure.lab.approaches.arena import APPROACHES, find
from tenure.lab.approaches.cast import COLUMNS
from tenure.lab.approaches.counting import PARTED, Cell, check_seeds, count
from tenure.lab.approaches.tables import as_object, broken_promises, legend, tables

SEEDS_DEFAULT = 1000


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seeds", type=int, default=SEEDS_DEFAULT, show_default=True, help="How many seeds a cell.")
@click.option("--first-seed", type=int, default=0, show_default=True, help="The seed to begin with.")
@click.option("--approaches", metavar="LIST", help=f"Just these, with commas between: {', '.join(APPROACHES)}.")
@click.option(
    "--faults", metavar="LIST", help=f"Just these columns, with commas between.  [default: {','.join(COLUMNS)}]"
)
@click.option("--chart", type=click.Path(path_type=Path), metavar="FILE", help="Draw it into a .svg or .png file.")
@click.option("--jobs", type=int, help="How many processes to spread seeds over.  [default: one a core]")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def command(  # noqa: PLR0913  (click hands every option in)
    *,
    seeds: int,
    first_seed: int,
    approaches: str | None,
    faults: str | None,
    chart: Path | None,
    jobs: int | None,
    as_json: bool,
) -> int:
    """Compare ways to elect, under the very same faults: what breaks, with a fence and without.

    Every approach plays every seed under every fault by itself: three candidates, their servers, and a sink. Checkers read what
    happened: whether two worked at once, whether a stale write was taken, whether work was done twice, whether it went on at all. And
    then a long partition: which side answers.

    For learning and measuring. Production rents an engine: see tenure doctor.

    \b
    Examples:
      tenure lab compare                                 everything, 1,000 seeds a cell
      tenure lab compare --seeds 100                     a first look
      tenure lab compare --chart compare.svg             drawn as well
      tenure lab compare --approaches setnx,redlock,tenure --faults pause,jump
      tenure lab compare --json | jq '.cells[0]'

    Exit code 1 if what is promised does not hold: any approach fails without faults, or tenure lets a stale write through its
    fence or does not recover.
    """
    rows = _rows(approaches)
    columns = COLUMNS if faults is None else _columns(faults)
    check_picture("--chart", chart)
    wanted = (*columns, PARTED)
    cells = list(_shown(count(rows, wanted, check_seeds(first_seed, seeds), check_jobs(jobs)), len(rows) * len(wanted)))
    broken = broken_promises(cells)
    if chart is not None:
        from tenure.lab.approaches.drawing import comparison_picture  # noqa: PLC0415  (only a picture pays for it)

        save("--chart", chart, comparison_picture(cells))
    if as_json:
        click.echo(json.dumps({"cells": [as_object(cell) for cell in cells], "broken": broken}))
        return 1 if broken else 0
    for line in (*legend(), "", *tables(cells)):
        click.echo(line)
    for line in broken:
        click.echo(f"BROKEN: {line}")
    return 1 if broken else 0


def _rows(approaches: str | None) -> list[str]:
    named = APPROACHES if approaches is None else (find(name.strip()).name for name in approaches.split(","))
    return list(dict.fromkeys(named))


def _columns(faults: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column for name in faults.split(",") for column in (chosen(name.strip()) or ("none",))))


def _shown(cells: Iterable[Cell], total: int) -> Iterator[Cell]:
    """Yield the cells, and say on a terminal how far it has come."""
    told = sys.stderr.isatty()
    for number, cell in enumerate(cells, 1):
        if told:
            click.echo(f"\r{number} of {total} cells", nl=number == total, err=True)
        yield cell

"""What the commands of the laboratory's approaches have in common: their options, and what they print."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tenure.cli.lab_picture import check_folder, write
from tenure.errors import ConfigError
from tenure.lab.approaches.arena import Approach, Played, find, play
from tenure.lab.approaches.cast import CHOICES, COLUMNS, check_choices
from tenure.lab.approaches.checkers import CHECKERS, check
from tenure.lab.approaches.counting import check_seeds, count, faults_of, smallest
from tenure.lab.approaches.sink import FENCES, OFF
from tenure.lab.approaches.tables import TITLES, as_object, tables
from tenure.lab.approaches.telling import moral, tell
from tenure.lab.faults import SEED_MAX
from tenure.sim.checkers import Violation

if TYPE_CHECKING:
    from tenure.plan.drawing import Drawing

SEEDS_DEFAULT: Final = 200
JOBS_MAX: Final = 64
PICTURES: Final = (".svg", ".png")
DRAWN_NS: Final = 48 * 10**9  # Six leases before what failed: enough to see whose office it was.

FAULTS_HELP: Final = f"Just these, at work together, with commas between: {', '.join(CHOICES)}; or none."
Function = Callable[..., Any]


def jobs_default() -> int:
    """Return how many cores this process may use."""
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, JOBS_MAX)


def check_jobs(jobs: int | None) -> int:
    """Return how many processes to use, or refuse."""
    if jobs is None:
        return jobs_default()
    if not 1 <= jobs <= JOBS_MAX:
        raise ConfigError("--jobs", jobs, f"must lie between 1 and {JOBS_MAX}")
    return jobs


def one_of(**modes: Any) -> None:
    """Refuse options of which each says what to do, if there is more than one."""
    asked = [f"--{name.replace('_', '-')}" for name, value in modes.items() if value is not None and value is not False]
    if len(asked) > 1:
        raise ConfigError(asked[0], "given", f"cannot be given together with {asked[1]}")


def needs(there: bool, what: str, **given: Any) -> None:
    """Refuse options that say nothing unless something else is there."""
    for name, value in given.items():
        if value is not None and not there:
            shown = ",".join(value) if isinstance(value, tuple) else value
            raise ConfigError(f"--{name.replace('_', '-')}", shown, f"needs {what}")


def chosen(faults: str) -> tuple[str, ...]:
    """Return the faults of an option."""
    names = () if faults == "none" else tuple(name.strip() for name in faults.split(","))
    check_choices("--faults", names)
    return names


def check_picture(option: str, path: Path | None) -> None:
    """Refuse a file that no picture is written to, before anything is played for it."""
    if path is not None and path.suffix.lower() not in PICTURES:
        raise ConfigError(option, str(path), f"must end in {' or '.join(PICTURES)}")
    if path is not None:
        check_folder(option, path)


def save(option: str, path: Path, drawing: "Drawing") -> None:
    """Write a picture, or say in one line why not."""
    from tenure.plan.png import png  # noqa: PLC0415  (only a picture pays for it)
    from tenure.plan.svg import svg  # noqa: PLC0415

    content = svg(drawing).encode() if path.suffix.lower() == ".svg" else png(drawing)
    write(option, path, content)


def options(function: Function) -> Function:
    """Give a command of one approach its options."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print one object (with --story: one object a line)."),
        click.option("--jobs", type=int, help="How many processes to spread seeds over.  [default: one a core]"),
        click.option(
            "--picture", type=click.Path(path_type=Path), metavar="FILE", help="Draw the run into a .svg or .png file."
        ),
        click.option("--story", "told", is_flag=True, help="Tell one run: that of --seed, or the first that fails."),
        click.option(
            "--check",
            "checker",
            type=click.Choice(list(CHECKERS)),
            help="What must fail in the run that is told.  [default: what this is known for]",
        ),
        click.option("--fence", type=click.Choice(FENCES), help=f"Of the run that is told.  [default: {OFF}]"),
        click.option("--faults", metavar="LIST", help=FAULTS_HELP),
        click.option("--seed", type=int, help="Play this one, exactly as it was."),
        click.option("--first-seed", type=int, help="The seed to begin with.  [default: 0]"),
        click.option("--seeds", type=int, help=f"How many seeds a cell.  [default: {SEEDS_DEFAULT}]"),
    ):
        function = option(function)
    return function


def run(name: str, asked: dict[str, Any]) -> int:
    """Do what a command of one approach was asked for."""
    approach = find(name)
    one_of(seed=asked["seed"], seeds=asked["seeds"])
    one_of(seed=asked["seed"], first_seed=asked["first_seed"])
    is_told = asked["told"] or asked["picture"] is not None or asked["seed"] is not None
    needs(is_told, "--story, --picture or --seed", check=asked["checker"], fence=asked["fence"])
    seeds = check_seeds(asked["first_seed"] or 0, SEEDS_DEFAULT if asked["seeds"] is None else asked["seeds"])
    jobs = check_jobs(asked["jobs"])
    if asked["seed"] is not None and not 0 <= asked["seed"] <= SEED_MAX:
        raise ConfigError("--seed", asked["seed"], f"must lie between 0 and {SEED_MAX}")
    check_picture("--picture", asked["picture"])
    faults = None if asked["faults"] is None else chosen(asked["faults"])
    if is_told:
        return _one(approach, asked, faults, seeds)
    columns = COLUMNS if faults is None else ("+".join(faults) or "none",)
    cells = list(count([name], columns, seeds, jobs))
    if asked["as_json"]:
        click.echo(json.dumps({"cells": [as_object(cell) for cell in cells]}))
        return 0
    for line in tables(cells):
        click.echo(line)
    fault, checker = approach.tale
    if any(cell.of(checker) for cell in cells if fault in faults_of(cell.fault)):
        click.echo(f"\none of them, told: {_command(name)} --story")
    return 0


def _command(name: str) -> str:
    base, _, variant = name.partition("-")
    return f"tenure lab {'ours' if base == 'tenure' else base}" + (f" --{variant}" if variant else "")


def _one(approach: Approach, asked: dict[str, Any], faults: tuple[str, ...] | None, seeds: range) -> int:
    fault, known_for = approach.tale
    faults = (fault,) if faults is None else faults
    checker, fence = asked["checker"] or known_for, asked["fence"] or OFF
    seed = asked["seed"]
    if seed is None:
        seed = smallest(approach, faults, fence, checker, seeds)
        if seed is None:
            where = f"{len(seeds)} seeds with {', '.join(faults) or 'no fault'} and fence {fence}"
            click.echo(f"none of {where}: {TITLES[checker]}")
            return 0
    played = play(approach, seed, faults, fence)
    found = check(played.history, played.plan)
    if asked["picture"] is not None:
        # Where nobody gets anything done there is no moment to look at, but all of it.
        until = None if checker == "stuck" else _end_of(found, checker)
        _draw(asked["picture"], approach, played, until)
    replay = f"{_command(approach.name)} --seed {seed} --faults {','.join(faults) or 'none'} --fence {fence}"
    replay += "" if asked["checker"] is None else f" --check {checker}"
    if asked["as_json"]:
        entries = played.history if asked["told"] else []
        for entry in entries:
            click.echo(json.dumps(entry._asdict()))
        verdict = [{"checker": one.checker, "at_s": one.at / 1e9, "what": one.what} for one in found]
        click.echo(json.dumps({"seed": seed, "violations": verdict, "replay": replay}))
        return 0
    if asked["told"]:
        # What comes after the moral is another story. One who is stuck has none: there it is the end.
        for line in tell(approach, played, _end_of(found, checker)):
            click.echo(line)
        click.echo()
    for violation in found:
        click.echo(moral(violation))
    if not found:
        click.echo(f"seed {seed}: nothing is broken")
    click.echo(f"replay: {replay}{' --story' if asked['told'] else ''}")
    return 0


def _end_of(found: list[Violation], checker: str) -> int | None:
    return next((one.at for one in found if one.checker == checker), None)


def _draw(path: Path, approach: Approach, played: Played, until: int | None) -> None:
    from tenure.lab.approaches.drawing import run_picture  # noqa: PLC0415  (only a picture pays for it)

    since = 0 if until is None else max(0, until - DRAWN_NS)
    end = None if until is None else until + DRAWN_NS // 12
    save("--picture", path, run_picture(approach, played, since, end))

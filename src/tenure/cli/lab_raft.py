"""``tenure lab raft``: stories, seeds, mutants, and figure 16 of the paper."""

import json
from pathlib import Path
from typing import Any, Final

import click

from tenure.cli.lab_asking import check_jobs, needs, one_of
from tenure.cli.lab_figure16 import run_figure16
from tenure.cli.lab_picture import check_folder, write
from tenure.cli.lab_raft_seeds import run_seed, run_seeds
from tenure.cli.output import aligned
from tenure.errors import ConfigError
from tenure.lab.faults import FAULTS
from tenure.lab.raft.checkers import check
from tenure.lab.raft.figure16 import BROADCAST_MS, TRIALS
from tenure.lab.raft.killing import SEEDS_MAX, kill
from tenure.lab.raft.lanes import lanes_svg
from tenure.lab.raft.mutants import MUTANTS
from tenure.lab.raft.seeds import HARRY, SCALE_NS, Options
from tenure.lab.raft.stage import perform, state, told
from tenure.lab.raft.stories import STORIES
from tenure.lab.raft.stories import find as find_story

SEEDS_DEFAULT: Final = 500


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--story", metavar="NAME", help="Tell one scenario; see --list.")
@click.option("--list", "list_stories", is_flag=True, help="Print the names of all stories, and what each shows.")
@click.option("--seeds", type=int, help=f"How many worlds with faults to run.  [default: {SEEDS_DEFAULT}]")
@click.option("--first-seed", type=int, default=0, show_default=True, help="The seed to begin with.")
@click.option("--seed", type=int, help="Run this one seed, and tell what happened.")
@click.option("--mutant", metavar="NAME", help="Break one rule of Raft on purpose; see --list-mutants.")
@click.option("--list-mutants", is_flag=True, help="Print the names of all mutants, and what each does wrong.")
@click.option(
    "--kill", "kill_all", is_flag=True, help="Run every mutant until the promise that it breaks is seen broken."
)
@click.option(
    "--without",
    multiple=True,
    metavar="FAULT",
    help=f"Leave out faults, with commas between: {', '.join((*FAULTS, HARRY))}.",
)
@click.option("--servers", type=int, help="3, 5 or 7 servers, instead of what the seed draws.")
@click.option("--pre-vote/--no-pre-vote", default=None, help="With or without it, instead of what the seed draws.")
@click.option("--check-quorum/--no-check-quorum", default=None, help="Likewise.")
@click.option(
    "--strikes", metavar="LIST", help="With --seed: just these of its strikes, by their numbers; or none of them."
)
@click.option("--figure16", is_flag=True, help="Measure figure 16 of the Raft paper, and compare.")
@click.option("--trials", type=int, help=f"With --figure16: trials for each line.  [default: {TRIALS}]")
@click.option(
    "--broadcast", type=float, help=f"With --figure16: the broadcast time in ms.  [default: {BROADCAST_MS:g}]"
)
@click.option(
    "--svg", type=click.Path(path_type=Path), help="With --story or --figure16: write a picture to this file."
)
@click.option("--jobs", type=int, default=1, show_default=True, help="How many processes to spread the work over.")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def command(  # noqa: PLR0913  (click hands every option in)
    *,
    story: str | None,
    list_stories: bool,
    list_mutants: bool,
    kill_all: bool,
    figure16: bool,
    seed: int | None,
    seeds: int | None,
    first_seed: int,
    without: tuple[str, ...],
    strikes: str | None,
    trials: int | None,
    broadcast: float | None,
    svg: Path | None,
    jobs: int,
    as_json: bool,
    **chosen: Any,
) -> int:
    """Raft, run in virtual time: how it elects, what it promises, and what its timeouts cost.

    Without --story and --figure16 it draws worlds with faults, a seed each, and checks the five promises of the paper (figure
    3), and that a healthy cluster makes progress and keeps its leader. For learning and measuring: production rents.

    \b
    Examples:
      tenure lab raft --list
      tenure lab raft --story split-vote
      tenure lab raft --story partition --svg partition.svg
      tenure lab raft --seeds 10000 --jobs 2
      tenure lab raft --seeds 500 --mutant two-votes
      tenure lab raft --kill
      tenure lab raft --figure16 --jobs 2 --svg figure16.svg

    Exit code 1 if a promise was broken, or if a mutant survived.
    """
    one_of(
        story=story,
        list=list_stories,
        list_mutants=list_mutants,
        kill=kill_all,
        figure16=figure16,
        seed=seed,
        seeds=seeds,
    )
    needs(figure16, "--figure16", trials=trials, broadcast=broadcast)
    needs(figure16 or story is not None, "--story or --figure16", svg=svg)
    needs(seed is not None, "--seed: each seed draws others", strikes=strikes)
    with_seeds = not (figure16 or kill_all or list_stories or list_mutants or story is not None)
    needs(with_seeds, "--seeds or --seed", first_seed=first_seed or None, without=without or None, **chosen)
    if svg is not None:
        check_folder("--svg", svg)
    check_jobs(jobs)
    left_out = frozenset(name for names in without for name in names.split(","))
    options = Options(without=left_out, strikes=_numbers(strikes), **chosen)
    if list_stories or list_mutants:
        return _list(list_mutants, as_json=as_json)
    if story is not None:
        return _tell(story, svg, as_json=as_json)
    if figure16:
        return run_figure16(TRIALS if trials is None else trials, broadcast, jobs, svg, as_json=as_json)
    if kill_all:
        return _kill(as_json=as_json)
    if seed is not None:
        return run_seed(seed, options, as_json=as_json)
    return run_seeds(first_seed, SEEDS_DEFAULT if seeds is None else seeds, jobs, options, as_json=as_json)


def _numbers(strikes: str | None) -> tuple[int, ...] | None:
    """Return the strikes that were chosen, as numbers from 0 on; None: all."""
    if strikes is None:
        return None
    try:
        return () if strikes == "none" else tuple(sorted({int(number) - 1 for number in strikes.split(",")}))
    except ValueError:
        raise ConfigError("--strikes", strikes[:40], "must be numbers with commas between, or none") from None


def _list(mutants: bool, *, as_json: bool) -> int:
    named = {name: one.mistake for name, one in MUTANTS.items()} if mutants else {}
    named = named or {name: one.moral for name, one in STORIES.items()}
    click.echo(json.dumps(named) if as_json else aligned([[name, what] for name, what in named.items()]))
    return 0


def _tell(name: str, svg: Path | None, *, as_json: bool) -> int:
    story = find_story(name)
    stage = perform(story)
    found = check(stage.world.history, stage.world.plan, SCALE_NS)
    if svg is not None:
        write("--svg", svg, lanes_svg(story, stage).encode())
    if as_json:
        head, *rows = state(stage)
        servers = [dict(zip(head, row, strict=True)) for row in rows]
        lines = [line.strip() for line in told(stage.world.history)]
        report = {"story": name, "moral": story.moral, "lines": lines, "servers": servers}
        click.echo(json.dumps({**report, "violations": [violation._asdict() for violation in found]}))
    else:
        lines = [f"{story.title}: {story.moral}", "", *told(stage.world.history), "", aligned(state(stage))]
        click.echo("\n".join([*lines, *(f"BROKEN {one.checker}: {one.what}" for one in found)]))
    return 1 if found else 0


def _kill(*, as_json: bool) -> int:
    needed = {name: kill(name) for name in MUTANTS}
    survived = [name for name, count in needed.items() if count is None]
    if as_json:
        click.echo(json.dumps({"mutants": needed, "survived": survived}))
    else:
        head = ["mutant", "what it does wrong", "breaks", "seeds needed"]
        rows = [
            [name, MUTANTS[name].mistake, MUTANTS[name].checker, str(needed[name] or "SURVIVED")] for name in needed
        ]
        click.echo(aligned([head, *rows]))
        click.echo(f"{len(needed) - len(survived)} of {len(needed)} mutants killed within {SEEDS_MAX} seeds each")
    return 1 if survived else 0

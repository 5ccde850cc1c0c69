"""``tenure lab raft``: stories, seeds, mutants, and figure 16 of the paper."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import click

from tenure.cli.lab_figure16 import run_figure16
from tenure.cli.output import aligned
from tenure.cli.progress import progress
from tenure.errors import ConfigError
from tenure.lab.faults import FAULTS, MS, SEED_MAX
from tenure.lab.raft.checkers import check
from tenure.lab.raft.figure16 import BROADCAST_MS, TRIALS
from tenure.lab.raft.killing import SEEDS_MAX, kill
from tenure.lab.raft.lanes import lanes_svg
from tenure.lab.raft.mutants import MUTANTS
from tenure.lab.raft.seeds import HARRY, SCALE_NS, Options, draw_setup, judge, judge_seeds, play
from tenure.lab.raft.stage import perform, state, told
from tenure.lab.raft.stories import STORIES
from tenure.lab.raft.stories import find as find_story

SEEDS_DEFAULT: Final = 500
JOBS_MAX: Final = 64


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
    _one_of(
        story=story,
        list=list_stories,
        list_mutants=list_mutants,
        kill=kill_all,
        figure16=figure16,
        seed=seed,
        seeds=seeds,
    )
    if not figure16 and (trials, broadcast) != (None, None):
        raise ConfigError(
            "--trials" if trials is not None else "--broadcast", trials or broadcast or 0, "needs --figure16"
        )
    if svg is not None and story is None and not figure16:
        raise ConfigError("--svg", svg, "needs --story or --figure16")
    if not 1 <= jobs <= JOBS_MAX:
        raise ConfigError("--jobs", jobs, f"must lie between 1 and {JOBS_MAX}")
    left_out = frozenset(name for names in without for name in names.split(","))
    options = Options(without=left_out, **chosen)
    if list_stories or list_mutants:
        return _list(list_mutants, as_json=as_json)
    if story is not None:
        return _tell(story, svg, as_json=as_json)
    if figure16:
        return run_figure16(TRIALS if trials is None else trials, broadcast, jobs, svg, as_json=as_json)
    if kill_all:
        return _kill(as_json=as_json)
    if seed is not None:
        return _one_seed(seed, options, as_json=as_json)
    return _run(first_seed, SEEDS_DEFAULT if seeds is None else seeds, jobs, options, as_json=as_json)


def _one_of(**modes: Any) -> None:
    asked = [f"--{name.replace('_', '-')}" for name, value in modes.items() if value is not None and value is not False]
    if len(asked) > 1:
        raise ConfigError(asked[0], "given", f"cannot be given together with {asked[1]}")


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
        svg.write_text(lanes_svg(story, stage), encoding="utf-8")
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


def _one_seed(seed: int, options: Options, *, as_json: bool) -> int:
    setup = draw_setup(seed, options)
    outcome = judge(seed, options)
    if as_json:
        click.echo(json.dumps({"seed": seed, "elections": outcome.elections, "violations": _violations([outcome])}))
    else:
        history = play(setup, MUTANTS[options.mutant] if options.mutant else None)
        shown = f"{setup.settings.timeout_min_ns / MS:g}-{setup.settings.timeout_max_ns / MS:g} ms"
        click.echo(f"{setup.plan.show()}\nelection timeouts {shown}, pre-vote {setup.settings.pre_vote}, ", nl=False)
        click.echo(f"check-quorum {setup.settings.check_quorum}, harried {setup.harried:g}\n")
        click.echo("\n".join(told(history)))
        for violation in outcome.violations:
            click.echo(f"\n{violation.checker} is broken at {violation.at / MS:.1f} ms: {violation.what}")
    return 1 if outcome.violations else 0


def _violations(outcomes: list[Any]) -> list[dict[str, Any]]:
    return [
        {"seed": outcome.seed, "checker": found.checker, "at_s": found.at / 1e9, "what": found.what}
        for outcome in outcomes
        for found in outcome.violations
    ]


def _run(first_seed: int, seed_count: int, jobs: int, options: Options, *, as_json: bool) -> int:
    for option, value, least in (("--seeds", seed_count, 1), ("--first-seed", first_seed, 0)):
        if not least <= value <= SEED_MAX:
            raise ConfigError(option, value, f"must lie between {least} and {SEED_MAX}")
    began = time.monotonic()
    count, elections, committed, virtual_ns, broken = 0, 0, 0, 0, []
    with progress("seeds", seed_count, hidden=as_json) as bar:
        for outcome in judge_seeds(first_seed, seed_count, jobs, options):
            count, elections, committed = count + 1, elections + outcome.elections, committed + outcome.committed
            virtual_ns += outcome.virtual_ns
            bar.advance(1)
            if outcome.violations:
                broken.append(outcome)
    elapsed_s = time.monotonic() - began
    violations = _violations(broken)
    if as_json:
        report = {"seeds": count, "elections": elections, "committed": committed, "virtual_s": virtual_ns / 1e9}
        click.echo(
            json.dumps({**report, "elapsed_s": round(elapsed_s, 3), "violations": violations, "mutant": options.mutant})
        )
        return 1 if broken else 0
    click.echo(f"{count} seeds, {elections} elections, {committed} entries committed, ", nl=False)
    click.echo(f"{virtual_ns / 1e9:.0f} s of virtual time in {elapsed_s:.1f} s")
    for checker, seeds in Counter(checker for one in broken for checker in {v.checker for v in one.violations}).items():
        click.echo(f"VIOLATION {checker}: in {seeds} of {count} seeds")
    if not broken:
        click.echo("no violation")
        return 0
    first = broken[0]
    mutant = f" --mutant {options.mutant}" if options.mutant else ""
    click.echo(f"the first: seed {first.seed} ({first.violations[0].checker}: {first.violations[0].what})")
    click.echo(f"replay: tenure lab raft --seed {first.seed}{mutant}{_as_options(options)}")
    return 1


def _as_options(options: Options) -> str:
    words = [f" --without {','.join(sorted(options.without))}"] if options.without else []
    words += [f" --servers {options.servers}"] if options.servers is not None else []
    for name, value in (("pre-vote", options.pre_vote), ("check-quorum", options.check_quorum)):
        words += [] if value is None else [f" --{'' if value else 'no-'}{name}"]
    return "".join(words)

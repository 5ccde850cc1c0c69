"""``tenure sim``: one seed or many, a story, a mutant, a script."""

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tenure.cli.progress import progress
from tenure.cli.sim_script import run_script
from tenure.errors import ConfigError
from tenure.sim.mutants import MUTANTS, find
from tenure.sim.plan import FAULTS, SEED_MAX, Options, draw
from tenure.sim.run import Outcome, judge, judge_seeds, play
from tenure.sim.shrink import command as replay_command
from tenure.sim.shrink import shrink
from tenure.sim.story import story
from tenure.timing import Timing

if TYPE_CHECKING:
    from tenure.sim.checkers import Violation

SEEDS_DEFAULT = 500
JOBS_MAX = 64


@dataclass(slots=True)
class _Summary:
    """What a run has come to so far."""

    seeds: int = 0
    tenures: int = 0
    virtual_ns: int = 0
    overlaps: int = 0
    violations: list[tuple[int, "Violation"]] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.tenures += outcome.tenure_count
        self.virtual_ns += outcome.virtual_ns
        self.overlaps += outcome.overlap
        self.violations += [(outcome.seed, violation) for violation in outcome.violations]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seeds", type=int, help=f"How many seeds to run.  [default: {SEEDS_DEFAULT}]")
@click.option("--tenures", type=int, help="Run seeds until there have been this many tenures.")
@click.option("--first-seed", type=int, default=0, show_default=True, help="The seed to begin with.")
@click.option("--seed", type=int, help="Run this one seed.")
@click.option("--show", is_flag=True, help="With --seed: print everything that the seed draws, and run nothing.")
@click.option("--story", "tell", is_flag=True, help="With --seed: print one line per thing that happened.")
@click.option(
    "--wild-clocks", is_flag=True, help="Let clocks break their declared bound: belief breaks, the fence must not."
)
@click.option("--mutant", metavar="NAME", help="Break the machine on purpose; see --list-mutants.")
@click.option("--list-mutants", is_flag=True, help="Print the names of all mutants, one a line.")
@click.option(
    "--without", multiple=True, metavar="FAULT", help=f"Leave out faults, with commas between: {', '.join(FAULTS)}."
)
@click.option("--candidates", type=int, help="How many candidates, instead of what the seed draws.")
@click.option("--ttl", type=float, help="Lease in seconds, instead of what the seed draws.")
@click.option("--heartbeat", type=float, help="Seconds between renewals, instead of what the seed draws.")
@click.option("--misses", type=int, help="How many heartbeats fit into the lease (default 3).")
@click.option("--jobs", type=int, default=1, show_default=True, help="How many processes to spread the seeds over.")
@click.option("--script", type=click.Path(path_type=Path), help="Run a story script through the machine instead.")
@click.option("--json", "as_json", is_flag=True, help="Print one object (with --story: one object a line).")
def command(  # noqa: PLR0913  (click hands every option in)
    *,
    seeds: int | None,
    tenures: int | None,
    first_seed: int,
    seed: int | None,
    show: bool,
    tell: bool,
    wild_clocks: bool,
    mutant: str | None,
    list_mutants: bool,
    without: tuple[str, ...],
    candidates: int | None,
    ttl: float | None,
    heartbeat: float | None,
    misses: int | None,
    jobs: int,
    script: Path | None,
    as_json: bool,
) -> int:
    """Attack the election machine with simulated faults, and check what happened.

    Each seed draws a world: candidates, timing, a bad network, pauses, crashes, drifting clocks. The shipped machine
    runs in it in virtual time, and sixteen checkers read the history. The same seed gives the same history everywhere.

    \b
    Examples:
      tenure sim --seeds 500 --jobs 2
      tenure sim --seed 17 --show
      tenure sim --seed 17 --story
      tenure sim --seeds 500 --mutant no-fence
      tenure sim --seeds 500 --wild-clocks --json
      tenure sim --script tests/scripts/clean-win.txt

    Exit code 1 if a promise was broken, with the smallest failing seed and the command that replays it.
    """
    if list_mutants:
        click.echo("\n".join(MUTANTS))
        return 0
    if script is not None:
        return run_script(script, as_json=as_json)
    if mutant is not None:
        find(mutant)
    timing = None
    if (ttl, heartbeat, misses) != (None, None, None):
        timing = Timing.of(ttl=ttl, heartbeat=heartbeat, **({} if misses is None else {"misses": misses}))
    if seed is None and (show or tell):
        raise ConfigError("--show" if show else "--story", "without a seed", "needs --seed N")
    if not 1 <= jobs <= JOBS_MAX:
        raise ConfigError("--jobs", jobs, f"must lie between 1 and {JOBS_MAX}")
    if seed is not None and (seeds, tenures, first_seed) != (None, None, 0):
        raise ConfigError("--seed", seed, "names one seed: give it without --seeds, --tenures and --first-seed")
    left_out = frozenset(name for names in without for name in names.split(","))
    options = Options(first_seed if seed is None else seed, wild_clocks, left_out, candidates, timing)
    if show:
        plan = draw(options)
        click.echo(json.dumps(asdict(plan)) if as_json else plan.show())
        return 0
    if tell:
        return _tell(options, mutant, as_json=as_json)
    seed_count = 1 if seed is not None else _seed_count(seeds, tenures)
    return _run(options, seed_count, tenures, jobs, mutant, as_json=as_json)


def _seed_count(seeds: int | None, tenures: int | None) -> int | None:
    if seeds is not None and tenures is not None:
        raise ConfigError("--seeds", seeds, "cannot be given together with --tenures")
    for option, value in (("--seeds", seeds), ("--tenures", tenures)):
        if value is not None and not 1 <= value <= SEED_MAX:
            raise ConfigError(option, value, f"must lie between 1 and {SEED_MAX}")
    return SEEDS_DEFAULT if seeds is None and tenures is None else seeds


def _tell(options: Options, mutant: str | None, *, as_json: bool) -> int:
    _, history = play(options, mutant)
    lines = (
        (json.dumps({**entry._asdict(), "kind": entry.kind.value}) for entry in history) if as_json else story(history)
    )
    for line in lines:
        click.echo(line)
    violations = judge(options, mutant).violations
    if not as_json:
        for violation in violations:
            click.echo(f"\n{violation.checker} is broken at {violation.at / 1e9:.6f} s: {violation.what}")
    return 1 if violations else 0


def _run(  # noqa: PLR0913
    options: Options, seed_count: int | None, tenures: int | None, jobs: int, mutant: str | None, *, as_json: bool
) -> int:
    summary = _Summary()
    began = time.monotonic()
    outcomes = judge_seeds(options, seed_count, jobs, mutant)
    total = tenures if tenures is not None else seed_count
    with progress("tenures" if tenures is not None else "seeds", total, hidden=as_json) as bar:
        for outcome in outcomes:
            summary.add(outcome)
            bar.advance(outcome.tenure_count if tenures is not None else 1)
            if tenures is not None and summary.tenures >= tenures:
                break
    elapsed_s = time.monotonic() - began
    report = _report(summary, options, mutant, elapsed_s)
    if as_json:
        click.echo(json.dumps(report))
    else:
        _print_report(report)
    return 1 if summary.violations else 0


def _report(summary: _Summary, options: Options, mutant: str | None, elapsed_s: float) -> dict[str, Any]:
    report: dict[str, Any] = {
        "seeds": summary.seeds,
        "tenures": summary.tenures,
        "violations": [
            {"seed": seed, "checker": found.checker, "at_s": found.at / 1e9, "what": found.what}
            for seed, found in summary.violations
        ],
        "elapsed_s": round(elapsed_s, 3),
        "virtual_s": round(summary.virtual_ns / 1e9, 3),
        "wild_clocks": options.wild_clocks,
        "overlaps": summary.overlaps,
        "mutant": mutant,
    }
    if summary.violations:
        seed, found = min(summary.violations, key=lambda item: item[0])
        failing = Options(seed, options.wild_clocks, options.without, options.candidates, options.timing)
        small = shrink(failing, found.checker, mutant)
        report["smallest"] = {
            "seed": seed,
            "checker": found.checker,
            "what": next(again.what for again in judge(small, mutant).violations if again.checker == found.checker),
            "faults": [
                fault for fault in FAULTS if fault not in small.without and draw(small) != _without(small, fault)
            ],
            "candidates": draw(small).candidates,
            "replay": replay_command(small, mutant, "--story"),
        }
    return report


def _without(options: Options, fault: str) -> object:
    return draw(
        Options(options.seed, options.wild_clocks, options.without | {fault}, options.candidates, options.timing)
    )


def _print_report(report: dict[str, Any]) -> None:
    speed = report["virtual_s"] / max(report["elapsed_s"], 1e-9)
    click.echo(
        f"{report['seeds']} seeds, {report['tenures']} tenures, {report['virtual_s']:.0f} s of virtual time "
        f"in {report['elapsed_s']:.1f} s ({speed:.0f} x real time)"
    )
    if report["wild_clocks"]:
        click.echo(
            f"two tenures were valid at once in {report['overlaps']} seeds: what clocks that break their bound may cause"
        )
    if not report["violations"]:
        click.echo("no violation")
        return
    by_checker: dict[str, int] = {}
    for found in report["violations"]:
        by_checker[found["checker"]] = by_checker.get(found["checker"], 0) + 1
    for checker, number in by_checker.items():
        click.echo(f"VIOLATION {checker}: in {number} of {report['seeds']} seeds")
    small = report["smallest"]
    click.echo(f"smallest failing seed: {small['seed']} ({small['checker']}: {small['what']})")
    click.echo(f"shrunk to {small['candidates']} candidates and these faults: {', '.join(small['faults']) or 'none'}")
    click.echo(f"replay: {small['replay']}")

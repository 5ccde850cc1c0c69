"""``tenure lab raft --seeds`` and ``--seed``: worlds with faults, what they broke, and one that failed as a short story."""

import json
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import click

from tenure.cli.progress import progress
from tenure.errors import ConfigError
from tenure.lab.faults import MS, SEED_MAX, show_strike
from tenure.lab.raft.mutants import MUTANTS
from tenure.lab.raft.seeds import Options, Outcome, draw_setup, judge, judge_seeds, play
from tenure.lab.raft.shrinking import as_options, shrink
from tenure.lab.raft.stage import told

_LINES_MAX: Final = 60  # of a story that nobody has asked for: all of it is there by --seed


def run_seed(seed: int, options: Options, *, as_json: bool) -> int:
    """Run one seed, and tell it."""
    outcome = judge(seed, options)
    if as_json:
        click.echo(json.dumps({"seed": seed, "elections": outcome.elections, "violations": _violations([outcome])}))
    else:
        click.echo("\n".join(_story(seed, options, outcome)))
    return 1 if outcome.violations else 0


def run_seeds(first_seed: int, seed_count: int, jobs: int, options: Options, *, as_json: bool) -> int:
    """Run many, and make one that fails small."""
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
    report: dict[str, Any] = {
        "seeds": count,
        "elections": elections,
        "committed": committed,
        "virtual_s": virtual_ns / 1e9,
        "elapsed_s": round(elapsed_s, 3),
        "violations": _violations(broken),
        "mutant": options.mutant,
    }
    # Of those that fail, the one that does so soonest: it has the shortest story to begin with.
    soonest = min(broken, key=lambda outcome: outcome.violations[0].at, default=None)
    small = options if soonest is None else shrink(soonest.seed, options, soonest.violations[0].checker)
    if soonest is not None:
        report["replay"] = f"tenure lab raft --seed {soonest.seed}{as_options(small)}"
    if as_json:
        click.echo(json.dumps(report))
        return 1 if broken else 0
    click.echo(f"{count} seeds, {elections} elections, {committed} entries committed, ", nl=False)
    click.echo(f"{virtual_ns / 1e9:.0f} s of virtual time in {elapsed_s:.1f} s")
    if soonest is None:
        click.echo("no violation")
        return 0
    for checker, seeds in Counter(checker for one in broken for checker in {v.checker for v in one.violations}).items():
        click.echo(f"VIOLATION {checker}: in {seeds} of {count} seeds")
    click.echo(f"the one that failed soonest, seed {soonest.seed}, made small:\n")
    *story, moral = _story(soonest.seed, small, judge(soonest.seed, small))
    if len(story) > _LINES_MAX:
        story = [f"({len(story) - _LINES_MAX} lines before are left out)", *story[-_LINES_MAX:]]
    click.echo("\n".join([*story, moral]))
    click.echo(f"\nreplay: {report['replay']}")
    return 1


def _story(seed: int, options: Options, outcome: Outcome) -> list[str]:
    """Return what was drawn and what happened, up to the first promise that was broken: what comes then is another story."""
    setup = draw_setup(seed, options)
    history = play(setup, MUTANTS[options.mutant] if options.mutant else None)
    plan, settings = setup.plan, setup.settings
    end_at = outcome.violations[0].at if outcome.violations else history[-1].at
    chosen = f"pre-vote {settings.pre_vote}, check-quorum {settings.check_quorum}, harried {setup.harried:g}"
    return [
        *plan.show().splitlines()[: -len(plan.strikes) or None],
        *(
            f"{number + 1:>4}  {show_strike(strike)}"
            for number, strike in zip(options.strikes or range(len(plan.strikes)), plan.strikes, strict=True)
        ),
        f"election timeouts {settings.timeout_min_ns / MS:g}-{settings.timeout_max_ns / MS:g} ms, {chosen}",
        "",
        *told([entry for entry in history if entry.at <= end_at]),
        *(f"\n{one.checker} is broken at {one.at / MS:.1f} ms: {one.what}" for one in outcome.violations[:1]),
    ]


def _violations(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    return [
        {"seed": outcome.seed, "checker": found.checker, "at_s": found.at / 1e9, "what": found.what}
        for outcome in outcomes
        for found in outcome.violations
    ]

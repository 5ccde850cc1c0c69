"""``tenure run``: a command that runs on one machine at a time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from tenure.apps.run.job import Job
from tenure.apps.run.supervisor import supervise
from tenure.apps.run.voice import Voice
from tenure.apps.shards.terms import Terms
from tenure.cli.completion import election_names
from tenure.cli.readiness import readiness_options, signs_of
from tenure.cli.settings import DURATION, settings_of, store_options, timing_options
from tenure.errors import ConfigError
from tenure.office.desk import check_name

F = TypeVar("F", bound=Callable[..., Any])

_DRAIN_S: Final = 10.0  # what service managers and container engines give at least

ENVIRONMENT: Final = """\b
The command finds in its environment:
  TENURE_ELECTION, TENURE_HOLDER, TENURE_TOKEN, TENURE_FENCE
  TENURE_STORE   where the election is held, without its password
"""
SHARDS: Final = """\b
With --shards each command also finds TENURE_SHARD, has no input, and {shard} in its words is the number.
It is asked to end by TERM when its shard is to be another member's, or ours as a whole to stop. The exit
code is then that of the first command that failed; 0 if none did.
"""
EXIT_CODES: Final = """\b
Exit codes:
  the command's own, or 128+n if it died of signal n; else
  2      bad input
  69     the store could not be reached, or refused
  75     not elected within --wait
  124    the office was lost, and is not to be regained
  126    the command cannot be executed
  127    the command was not found
  128+n  signal n came while no command ran
"""


class CommandAfterDashes(click.Command):
    """A command of ours that takes a command of the user's after ``--``, whose options are none of ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        cut = args.index("--") if "--" in args else len(args)
        ctx.allow_interspersed_args = cut < len(args)
        left = super().parse_args(ctx, args[:cut])
        if cut < len(args):
            if ctx.params["command"] and not ctx.resilient_parsing:
                ctx.fail(f"Unexpected {ctx.params['command'][0]!r} before --: the command goes after it.")
            ctx.params["command"] = tuple(args[cut + 1 :])
        elif (first := next(iter(ctx.params["command"]), "")).startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"There is no command called {first!r}: after options, put the command after --.")
        if not ctx.params["command"] and not ctx.resilient_parsing:
            ctx.fail("There is no command to run: put it after --.")
        return left

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx)[:-1], "-- COMMAND…"]


def command_options(name: str) -> Callable[[F], F]:
    """Add what ``run`` and ``lock`` have in common: the office, called ``name``, the command, and how to get it."""

    def decorate(function: F) -> F:
        for add in reversed(
            (
                click.argument("name", metavar=name, shell_complete=election_names),
                click.argument("command", nargs=-1, type=click.UNPROCESSED),
                store_options,
                timing_options,
                click.option("--wait", "wait_s", type=DURATION, help="Wait at most this long, then exit with 75."),
                click.option("--no-wait", is_flag=True, help="Exit with 75 if somebody else is in office."),
                click.option("-q", "--quiet", is_flag=True, help="Say nothing but why it ends."),
                click.option("--json", "as_json", is_flag=True, help="Say it as one object a line, on standard error."),
            )
        ):
            function = add(function)
        return function

    return decorate


def wait_of(wait_s: float | None, *, no_wait: bool) -> float | None:
    """Return how long to wait for office: None is for ever, 0 not at all."""
    if no_wait and wait_s is not None:
        raise ConfigError("--wait", f"{wait_s:g} s", "cannot be given together with --no-wait")
    return 0 if no_wait else wait_s


@click.command(
    cls=CommandAfterDashes,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"{ENVIRONMENT}\n{SHARDS}\n{EXIT_CODES}",
)
@command_options("ELECTION")
@click.option("--once", is_flag=True, help="Do not stand again when the office was lost: exit with 124.")
@click.option(
    "--restart",
    type=click.Choice(["never", "on-failure"]),
    default="never",
    show_default=True,
    help="Whether to start the command again, in the same tenure, if it fails.",
)
@click.option("--healthy", metavar="CMD", help="Stand only while this shell command succeeds, once per heartbeat.")
@readiness_options
@click.option("--shards", type=int, metavar="N", help="Share N shards with other members: a command for each of ours.")
@click.option("--weight", type=int, metavar="W", help="How much to own beside others.  [default: 1]")
@click.option("--max-shards", type=int, metavar="N", help="Own at most so many.")
@click.option("--member", metavar="NAME", help="Our name over restarts.  [default: the lowest free number]")
@click.option("--drain", type=DURATION, help="How long a command may take to make way.  [default: 10s]")
@click.option(
    "--history/--no-history", default=None, help="Record who led when, for tenure history.  [default: --history]"
)
@click.option("--return-within", type=DURATION, help="Keep our shards for us so long when we are gone.  [default: 0s]")
def command(  # noqa: PLR0913  (click hands every option in)
    *,
    name: str,
    command: tuple[str, ...],
    store: str | None,
    config: Path | None,
    accept_best_effort: bool | None,
    ttl: float | None,
    grace: float | None,
    wait_s: float | None,
    no_wait: bool,
    once: bool,
    restart: str,
    healthy: str | None,
    ready_file: str | None,
    ready_http: str | None,
    notify: bool,
    shards: int | None,
    history: bool | None,
    quiet: bool,
    as_json: bool,
    **sharing: Any,
) -> int:
    """Run a command while this process leads ELECTION.

    Start it on every machine: one runs the command, the others stand by. When the office is lost the command's process
    group gets TERM, then KILL before anybody else can take office. Then this process stands again. A signal to stop is
    passed on to the command; its end is the end.

    \b
    Examples:
      tenure run billing/close -- ./close.sh --all
      tenure run scheduler --restart on-failure -- celery beat
      tenure run reports --once --wait 30s -- make report
      tenure run primary --healthy 'pg_isready -q' -- ./serve
      tenure run api --ready-http :8086 -- ./serve
      tenure run crawl --shards 64 -- ./crawl --part {shard}
    """
    voice = Voice(quiet=quiet, as_json=as_json)
    settings = settings_of(
        store=store, config=config, ttl=ttl, grace=grace, accept_best_effort=accept_best_effort, history=history
    )
    wait_s = wait_of(wait_s, no_wait=no_wait)
    if healthy is not None and not healthy.strip():  # A variable that was not set would pass for "always healthy".
        raise ConfigError("--healthy", repr(healthy), "must be a shell command")
    sharding = _sharding(name, shards, sharing)
    if sharding is not None and (once or wait_s is not None):
        raise ConfigError("--shards", shards, "cannot be given together with --once, --wait or --no-wait")
    job = Job(
        check_name(name),
        command,
        settings.store,
        settings.timing,
        once,
        wait_s,
        restart == "on-failure",
        healthy,
        settings.accept_best_effort,
        signs_of(ready_file, ready_http, notify=notify),
        sharding,
        settings.history,
    )
    return supervise(job, voice)


def _sharding(name: str, shards: int | None, sharing: dict[str, Any]) -> Terms | None:
    """Return how shards are to be shared. Raises ConfigError for what is said of shards where there are none."""
    given = {name: value for name, value in sharing.items() if value is not None}
    if shards is None:
        if given:
            option = f"--{next(iter(given)).replace('_', '-')}"
            raise ConfigError(option, next(iter(given.values())), "is for shards: say how many by --shards")
        return None
    return Terms.of(name, shards, **{"drain": _DRAIN_S, **given})

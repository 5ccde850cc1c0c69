"""``tenure demo``: a leader that slept too long, live, on SQLite, with nothing to install.

``director`` plays the three acts with real processes (``stage``, ``candidate``) and a real ``ledger``; ``judge`` reads
from the history what they have shown; ``show`` and ``wording`` show it.
"""

import signal
import sys
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tenure.cli.settings import DURATION
from tenure.errors import ConfigError

if TYPE_CHECKING:
    from tenure.cli.demo.show import Show

TTL_MIN_S = 0.5  # A leader renews four times in a lease; on a busy machine a process may have to wait for 0.1 s.
TTL_MAX_S = 60.0


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--ttl", "ttl_s", type=DURATION, default="2s", show_default=True, help="Lease; the rest follows from it.")
@click.option("--json", "as_json", is_flag=True, help="Print one object a line, and a last one with the figures.")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Also draw the run into this file.")
@click.option("--web", is_flag=True, help="Also show it on a page, and begin when somebody has opened it.")
@click.pass_context
def command(ctx: click.Context, *, ttl_s: float, as_json: bool, svg: Path | None, web: bool) -> int:
    """Freeze and kill leaders, and see which writes count.

    Three processes stand for election and pay the invoices of a ledger. The leader is frozen in the middle of a write,
    a standby takes over, and the old leader wakes up and sends what it had ready. Then a leader is killed. Then the
    first act is played again without the fence. Takes about 25 seconds, and leaves nothing behind.

    \b
    Examples:
      tenure demo
      tenure demo --ttl 6s             slower, to read along
      tenure demo --json | tail -1     the figures
      tenure demo --svg demo.svg       a picture of this run
      tenure demo --web                in a browser on this machine
      tenure demo failover             the seconds without a leader, planned and measured

    Exit code 1 if the fenced ledger accepted a stale write, or if the demo could not show what it is there to show.
    """
    if ctx.invoked_subcommand is not None:
        _check_no_option(ctx)
        return 0
    if not TTL_MIN_S <= ttl_s <= TTL_MAX_S:
        raise ConfigError("--ttl", ttl_s, f"must lie between {TTL_MIN_S:g} and {TTL_MAX_S:g} seconds")
    if svg is not None:
        _check_can_be_written(svg)
    _leave_in_order()
    return _run(ttl_s, svg, as_json=as_json, web=web)


@command.command()
@click.option("--quick", is_flag=True, help="Rehearse it with all times at a quarter.")
@click.option("--json", "as_json", is_flag=True, help="Print one object a line, and a last one with the figures.")
def failover(*, quick: bool, as_json: bool) -> int:
    """Kill and freeze leaders, and measure every part of the time until the next one is found.

    Four failovers at once, each with a store, a leader, a standby, two workers and a client of its own: killed with -9 and frozen
    by SIGSTOP, with a cold standby and with a warm one, at H = 2 s, N = 3, L = 8 s. The workers go on with their last orders, and
    what they did is counted from their own records. Takes about 45 seconds, and leaves nothing behind.

    \b
    Examples:
      tenure demo failover
      tenure demo failover --quick            a quarter of all times, to see how it goes
      tenure demo failover --json | tail -1   the figures

    Exit code 1 if a failover took longer than its plan and the reserve, if a worker left out an execution, or if a stale order was accepted.
    """
    from tenure.cli.demo.failover.command import run  # noqa: PLC0415  (every process of the demos imports this file)

    _leave_in_order()
    return run(quick=quick, as_json=as_json)


def _check_no_option(ctx: click.Context) -> None:
    # Before the word "failover" they are those of another demo, and would be ignored.
    for name in ctx.params:
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            rule = f"belongs to tenure demo: {ctx.invoked_subcommand} has options of its own, which come after it"
            raise ConfigError(f"--{name.removesuffix('_s').removeprefix('as_')}", "given", rule)


def _check_can_be_written(svg: Path) -> None:
    # Now, and not after half a minute. A picture that is there already stays until there is a new one.
    try:
        svg.open("ab").close()
    except OSError as error:
        raise ConfigError("--svg", svg, f"cannot be written: {error.strerror}") from None


def _run(ttl_s: float, svg: Path | None, *, as_json: bool, web: bool) -> int:
    # Here, because every candidate imports this file before its own.
    from tenure.cli.demo.director import play  # noqa: PLC0415
    from tenure.cli.demo.judge import judge  # noqa: PLC0415
    from tenure.cli.demo.show import Json, Plain, Terminal, save_svg  # noqa: PLC0415
    from tenure.cli.output import is_terminal  # noqa: PLC0415

    show: Json | Plain | Terminal
    if as_json:
        show = Json()
    elif is_terminal():
        from rich.console import Console  # noqa: PLC0415

        show = Terminal(Console(highlight=False), ttl_s)
    else:
        show = Plain(ttl_s)
    with ExitStack() as stack:
        audience = _on_a_page(stack, show, ttl_s) if web else show
        with show if isinstance(show, Terminal) else nullcontext():
            history, broken = play(ttl_s, audience)
        verdict = judge(history, broken)
        audience.report(verdict)
    if svg is not None:
        save_svg(svg, history, verdict, ttl_s)
    return verdict.exit_code


def _on_a_page(stack: ExitStack, show: "Show", ttl_s: float) -> "Show":
    from tenure.cli.demo.web import WAIT_S, watched  # noqa: PLC0415  (only who asks for it pays)

    audience, url, showing = stack.enter_context(watched(show, ttl_s))
    click.echo(f"watch it at {url}", err=True)
    if not showing.wait_for_somebody(WAIT_S):
        click.echo(f"nobody has opened it within {WAIT_S:g} s: beginning all the same", err=True)
    return audience


def _leave_in_order() -> None:
    """Let a signal to end be an exception, so that whatever was begun is ended: by default nothing would be."""

    def leave(number: int, _: object) -> None:
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # Who asked for nohup keeps it.
            signal.signal(number, leave)

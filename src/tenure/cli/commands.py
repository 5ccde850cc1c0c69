"""What the ``tenure`` command offers, and how errors reach a person.

Commands are imported when they are run, so that ``tenure --help`` costs no more than click. Bad input gets one line
on standard error and exit code 2, never a traceback. An error that nobody foresaw is not hidden.
"""

import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from tenure import __version__
from tenure.cli.main import INTERRUPTED
from tenure.errors import StoreError, TenureError, redact

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Name → module that defines ``command``, and the line that ``tenure --help`` shows for it.
COMMANDS: Final = {
    "run": ("tenure.cli.run", "Run a command while this process leads."),
    "lock": ("tenure.cli.lock", "Run a command while holding a lock."),
    "cron": ("tenure.cli.cron", "Run jobs when they are due, once."),
    "migrate": ("tenure.cli.migrate", "Apply the steps that a database has not had yet, once."),
    "config": ("tenure.cli.config", "Propose, apply and follow settings that many share."),
    "status": ("tenure.cli.status", "Show who leads."),
    "watch": ("tenure.cli.watch", "Tell every change of leader."),
    "history": ("tenure.cli.history", "Show who led when, and how long nobody did."),
    "plan": ("tenure.cli.plan", "Say whether a failover fits an RTO, and what a shorter timeout costs."),
    "resign": ("tenure.cli.resign", "Ask a leader to leave office."),
    "serve": ("tenure.cli.serve", "Serve elections over HTTP: for load balancers, any language, and people."),
    "metrics": ("tenure.cli.metrics", "Print alert rules, a dashboard, and which metrics there are."),
    "doctor": ("tenure.cli.doctor", "Say whether elections will work at a store."),
    "fence": ("tenure.cli.fence", "Print what makes an engine refuse a stale leader; look at fences, and mend them."),
    "demo": ("tenure.cli.demo", "Freeze and kill leaders, and see which writes count."),
    "completion": ("tenure.cli.completion", "Print the completion script of a shell."),
    "sim": ("tenure.cli.sim", "Attack the election machine with simulated faults."),
    "lab": ("tenure.cli.lab", "Run and measure the algorithms behind the engines: for learning."),
}

# These print nothing themselves, and open for their command what was closed when they were started.
_NEED_NO_OUTPUT: Final = (["run"], ["lock"])

NO_STORE: Final = 69  # EX_UNAVAILABLE of sysexits.h
CANNOT_WRITE: Final = 74  # EX_IOERR
EXIT_CODES: Final = """\b
Exit codes:
  0      done
  1      a promise was broken (sim, demo, lab), elections will not work (doctor), a step failed (migrate), or a failover
         does not fit (plan)
  2      bad input: one line says which value breaks which rule
  69     the store could not be reached, or refused
  74     the output could not be written
  75     not elected, or not resigned, in time
  124    the office was lost (run --once, lock)
  126    the command cannot be executed
  127    the command was not found
  128+n  the command, or tenure itself, died of signal n
  130    interrupted

\b
Environment:
  TENURE_STORE, TENURE_TTL, TENURE_GRACE   like --store, --ttl and --grace
  TENURE_CONFIG                            like --config
"""


class _NobodyReads(Exception):
    """Who reads our output has gone. Not an OSError: of that click makes exit code 1, which says a promise was broken."""


class _Commands(click.Group):
    def make_context(self, *arguments: Any, **named: Any) -> click.Context:
        with _told_from_a_broken_promise():  # --help and --version print while the line is parsed.
            return super().make_context(*arguments, **named)

    def invoke(self, ctx: click.Context) -> Any:
        with _told_from_a_broken_promise():
            try:
                return super().invoke(ctx)
            except click.exceptions.NoArgsIsHelpError as bare:  # one of the groups below, without a command
                click.echo(bare.ctx.get_help())
                return 0

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            command: click.Command = import_module(COMMANDS[cmd_name][0]).command
            return command
        if not ctx.resilient_parsing and not cmd_name.startswith("-"):
            from difflib import get_close_matches  # noqa: PLC0415  (only a slip pays for it)

            near = get_close_matches(cmd_name, COMMANDS, n=1)
            ctx.fail(f"There is no command {cmd_name!r}" + (f": did you mean {near[0]!r}?" if near else "."))
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, short) for name, (_, short) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem  # noqa: PLC0415

        # Click's own would import every command to find its help, and take a second over it.
        commands = [
            CompletionItem(name, help=short) for name, (_, short) in COMMANDS.items() if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)


@contextmanager
def _told_from_a_broken_promise() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise _NobodyReads from None


@click.group(
    cls=_Commands,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.version_option(__version__, "-V", "--version", prog_name="tenure")
@click.pass_context
def tenure(ctx: click.Context) -> None:
    """Leader election and failover in which a stale leader cannot write.

    \b
    Examples:
      tenure demo                                freeze a leader, and see its late write refused
      tenure run billing/close -- ./close.sh     run a command on one machine at a time
      tenure lock backup --no-wait -- ./dump.sh  run a command unless it runs already
      tenure cron crontab.toml                   run jobs when they are due, once
      tenure migrate steps --database URL        bring a database up to date, once
      tenure config propose limits limits.json   propose settings, which the leader applies
      tenure status                              show who leads
      tenure watch billing/close                 tell every change of leader
      tenure history billing/close               show who led when, and how long nobody did
      tenure resign billing/close --wait 30s     have the leader step down
      tenure doctor --store etcd://h1,h2,h3      see whether elections will work there
      tenure plan --rto 30s                      see whether a failover takes longer than it may
      tenure serve                               see all elections in a browser, and hold them over HTTP
      tenure sim --seeds 500                     attack the machine with 500 random worlds
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def invoke() -> int:
    """Run the command line and return its exit code."""
    if sys.stdout is None and sys.argv[1:2] not in _NEED_NO_OUTPUT:
        return _complain("standard output is closed", CANNOT_WRITE)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # They are for who writes code, and a user can do nothing about them.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # A name that the terminal's encoding lacks is no error.
    try:
        code = tenure(prog_name="tenure", standalone_mode=False)
        click.echo(nl=False)  # Flushes what there is to flush: there may be no standard output.
    except click.exceptions.Exit as leaving:
        code = leaving.exit_code
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "tenure"
        # In one line, and without the password of a URL that was given in the wrong place.
        code = _complain(f"{redact(error.format_message())} (see {where} --help)", error.exit_code, where)
    except TenureError as error:
        code = _complain(str(error), NO_STORE if isinstance(error, StoreError) else 2)
    except (BrokenPipeError, _NobodyReads):
        # Who reads us has gone (``| head``). Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = CANNOT_WRITE
    except OSError as error:
        code = _complain(error.strerror or str(error), CANNOT_WRITE)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except (KeyboardInterrupt, click.Abort):
        code = _complain("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _complain(what: str, code: int, where: str = "tenure") -> int:
    with suppress(OSError, AttributeError):  # standard error may be closed: then nobody wants to know
        click.echo(f"{where}: {what}", err=True)
    return code

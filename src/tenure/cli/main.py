"""The ``tenure`` command: what it offers, and how errors reach a person.

Commands are imported when they are run, so that ``tenure --help`` costs no more than click. Bad input gets one line
on standard error and exit code 2, never a traceback.
"""

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Final

import click

from tenure import __version__
from tenure.errors import TenureError

# Name → module that defines ``command``, and the line that ``tenure --help`` shows for it.
COMMANDS: Final = {
    "sim": ("tenure.cli.sim", "Attack the election machine with simulated faults."),
}

CANNOT_WRITE: Final = 74  # EX_IOERR of sysexits.h
EXIT_CODES: Final = """\b
Exit codes:
  0    done
  1    a promise was broken (sim: a checker found a violation)
  2    bad input: one line says which value breaks which rule
  74   the output could not be written
  130  interrupted
"""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, short) for name, (_, short) in COMMANDS.items()])


@click.group(cls=_Commands, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tenure")
def tenure() -> None:
    """Leader election and failover in which a stale leader cannot write.

    \b
    Examples:
      tenure sim --seeds 500             attack the machine with 500 random worlds
      tenure sim --seed 17 --story       tell what happened in one of them
    """


def main() -> None:
    """Run the command line and leave with its exit code."""
    if sys.stdout is None:
        sys.exit(_complain("tenure: standard output is closed", CANNOT_WRITE))
    try:
        code = tenure(prog_name="tenure", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as leaving:
        code = leaving.exit_code
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "tenure"
        code = _complain(f"{where}: {' '.join(error.format_message().split())} (see {where} --help)", error.exit_code)
    except TenureError as error:
        code = _complain(f"tenure: {error}", 2)
    except BrokenPipeError:
        # Who reads us has gone (``| head``). Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = CANNOT_WRITE
    except OSError as error:
        code = _complain(f"tenure: {error.strerror or error}", CANNOT_WRITE)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except (KeyboardInterrupt, click.Abort):
        code = _complain("tenure: interrupted", 130)
    sys.exit(code if isinstance(code, int) else 0)


def _complain(line: str, code: int) -> int:
    with suppress(OSError, AttributeError):  # standard error may be closed: then nobody wants to know
        click.echo(line, err=True)
    return code

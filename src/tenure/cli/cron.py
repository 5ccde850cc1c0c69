"""``tenure cron``: run jobs when they are due, once, on however many machines this is started."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click

from tenure.apps.cron.crontab import read_crontab
from tenure.apps.cron.service import Service, serve
from tenure.apps.run.voice import Voice
from tenure.cli import cron_people
from tenure.cli.cron_place import crontab_options, place_of
from tenure.cli.settings import DURATION, timing_options

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

EXIT_CODES: Final = """\b
Exit codes:
  0      stopped by a signal, and every run had ended
  2      bad input: nothing was run
  69     the store could not be reached, or refused, or there is no such file for the ledger
  128+n  stopped by signal n, and runs were cut short, or it was not in office
"""


class _Cron(click.Group):
    """A group in which a file may stand where a command does: ``tenure cron FILE`` is ``tenure cron run FILE``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem  # noqa: PLC0415

        return [*super().shell_complete(ctx, incomplete), CompletionItem(incomplete, type="file")]


@click.group(cls=_Cron, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Run the jobs of a crontab when they are due, once, on however many machines this is started.

    One scheduler is in office and runs them; the others stand by. Every run is recorded, and when the one in office dies, the next
    goes on where the record ends. tenure cron FILE is tenure cron run FILE.

    \b
    Examples:
      tenure cron crontab.toml
      tenure cron check crontab.toml
      tenure cron list crontab.toml
      tenure cron runs crontab.toml --job backup
      tenure cron trigger crontab.toml backup
      tenure cron pause crontab.toml backup
    """


for _one in (cron_people.list_, cron_people.runs, cron_people.trigger, cron_people.pause, cron_people.resume):
    command.add_command(_one)


@command.command(epilog=EXIT_CODES)
@crontab_options
@timing_options
@click.option(
    "--drain", "drain_s", type=DURATION, default="10s", show_default=True, help="How long a stop waits for runs."
)
@click.option("-q", "--quiet", is_flag=True, help="Say only what somebody should look at.")
@click.option("--json", "as_json", is_flag=True, help="Say it as one object a line, on standard error.")
def run(*, file: Path, drain_s: float, quiet: bool, as_json: bool, **where: Any) -> int:
    """Run the jobs of FILE whenever this scheduler is in office.

    A job's command finds TENURE_RUN (job@time, the same in every attempt), TENURE_JOB, TENURE_SCHEDULED and TENURE_ATTEMPT in its environment,
    and TENURE_ELECTION, TENURE_TOKEN, TENURE_FENCE, TENURE_HOLDER and TENURE_STORE. When the office is lost its process group gets TERM, then
    KILL before anybody else can take office.

    \b
    Examples:
      tenure cron crontab.toml
      tenure cron run crontab.toml --ledger postgresql://app@db1/prod
      tenure cron crontab.toml --store etcd://h1,h2,h3 --ledger mysql://app@db1/prod
    """
    voice = Voice(quiet=quiet, as_json=as_json)
    crontab = read_crontab(file, calls=True)
    settings, ledger = place_of(crontab, **where)
    if urlsplit(ledger).scheme == "sqlite" != urlsplit(settings.store).scheme:
        text = "the ledger is a file of this machine: schedulers elsewhere have another record, and would run everything again"
        voice.complain("local-ledger", text)
    service = Service(
        crontab, settings.store, ledger, settings.timing, drain_s, settings.accept_best_effort, settings.history
    )
    return serve(service, voice)


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one object a line.")
def check(*, file: Path, as_json: bool) -> None:
    """Read FILE as a scheduler would, and show when each job is due next. Runs nothing, and asks no database.

    \b
    Examples:
      tenure cron check crontab.toml
    """
    cron_people.show_jobs(read_crontab(file, calls=True), {}, {}, as_json=as_json)

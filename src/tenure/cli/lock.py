"""``tenure lock``: a command that runs once, while nobody else holds the lock."""

from pathlib import Path

import click

from tenure.apps.run.job import Job
from tenure.apps.run.supervisor import supervise
from tenure.apps.run.voice import Voice
from tenure.cli.run import ENVIRONMENT, EXIT_CODES, CommandAfterDashes, command_options, wait_of
from tenure.cli.settings import settings_of
from tenure.office.desk import check_name


@click.command(
    cls=CommandAfterDashes,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"{ENVIRONMENT}\n{EXIT_CODES}",
)
@command_options("NAME")
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
    quiet: bool,
    as_json: bool,
) -> int:
    """Run a command while holding the lock NAME.

    Waits for the lock, runs the command once, gives the lock back, and exits with the command's code. If the lock is lost
    meanwhile, the command's process group gets TERM, then KILL before anybody else can have it, and the exit code is 124.

    \b
    Examples:
      tenure lock backup -- ./dump.sh
      tenure lock backup --no-wait -- ./dump.sh
      tenure lock deploy --wait 10m -- make deploy
    """
    voice = Voice(quiet=quiet, as_json=as_json)
    settings = settings_of(store=store, config=config, ttl=ttl, grace=grace, accept_best_effort=accept_best_effort)
    wait_s = wait_of(wait_s, no_wait=no_wait)
    job = Job(
        check_name(name),
        command,
        settings.store,
        settings.timing,
        once=True,
        wait_s=wait_s,
        accept_best_effort=settings.accept_best_effort,
    )
    return supervise(job, voice)

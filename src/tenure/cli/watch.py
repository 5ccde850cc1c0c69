"""``tenure watch``: every change of leader, as it is seen."""

import json
import os
import select
import signal
import stat
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tenure.cli.completion import election_names
from tenure.cli.output import as_object, duration, is_terminal, shown, table
from tenure.cli.reading import address_of, look, reading, status_of
from tenure.cli.settings import DURATION, Settings, settings_of, store_options
from tenure.errors import ConfigError, TenureError, redact
from tenure.office.desk import check_name
from tenure.stores.base import ElectionStatus

if TYPE_CHECKING:
    from tenure.office.opened import OpenStore

# Four looks in a second miss hardly a tenure, which lasts for a heartbeat or more. Each costs the store one read of all
# its elections: for a thousand of them in SQLite about 15 ms.
_LOOK_EVERY_S: Final = 0.25
_STANDS_OUT_S: Final = 3.0  # long enough for a glance to catch it
_LINES_AROUND: Final = 4  # title, heads of columns, a note below, and where the cursor rests
_TERMINATED: Final = 128 + signal.SIGTERM

Seen = list[ElectionStatus] | TenureError


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("elections", metavar="[ELECTION]...", nargs=-1, shell_complete=election_names)
@store_options
@click.option("--for", "for_s", type=DURATION, help="End after this time.  [default: at Ctrl-C]")
@click.option("--json", "as_json", is_flag=True, help="Print one object a line.")
def command(  # noqa: PLR0913  (click hands every option in)
    *,
    elections: tuple[str, ...],
    store: str | None,
    config: Path | None,
    accept_best_effort: bool | None,
    for_s: float | None,
    as_json: bool,
) -> int:
    """Tell who leads, and every change of it, until Ctrl-C (exit code 130) or for a given time.

    On a terminal this is a table that changes, otherwise a line per change: first the present state of each election,
    then what becomes of it. A store that cannot be asked for a while is waited for. It looks four times a second, so a
    leader who was there for a moment may be missed; a gap between two tokens tells.

    \b
    Examples:
      tenure watch
      tenure watch billing/close --for 30s
      tenure watch --json | jq 'select(.change == "elected")'
    """
    names = list(dict.fromkeys(check_name(name) for name in elections))
    settings = settings_of(store=store, config=config, accept_best_effort=accept_best_effort, reading=True)
    address = address_of(settings)
    try:
        with closing(_looks(settings, names, for_s)) as looks:
            if as_json or not is_terminal():
                _tell(looks, address, as_json=as_json)
            else:
                _show(looks, address)
    except KeyboardInterrupt:
        return 130  # This is how it is meant to end, so there is nothing to say.
    return 0


def _looks(settings: Settings, names: Sequence[str], for_s: float | None) -> Generator[Seen]:
    """Look again and again; yields what was seen, or why nothing was."""
    opened: OpenStore | None = None
    last: dict[str, ElectionStatus] = {}
    answered = False
    with ExitStack() as stack:
        for _ in _ticks(for_s):
            try:
                if opened is None:  # Not opened yet, or there was nothing to open: look again.
                    stack.close()
                    opened = stack.enter_context(reading(settings))
                found = {status.election: status for status in look(opened, names)}
                # An election that is no longer listed was deleted, and with it the office of its leader.
                last = {election: status_of(election) for election in last} | found
                seen: Seen = list(last.values())
                answered = True
            except TenureError as error:
                # What cannot be a store now never will be. But one that was may be back: its disk, its rights.
                if isinstance(error, ConfigError) and not answered:
                    raise
                stack.close()
                opened, seen = None, error
            yield seen


def _ticks(for_s: float | None) -> Iterator[None]:
    """Yield at once and then at every look, until the time is over. Raises BrokenPipeError if nobody reads any more."""
    end_s = None if for_s is None else time.monotonic() + for_s
    # A reader that went away (``| head -1``) would otherwise be noticed at the next change, perhaps in a week.
    gone = select.poll()
    if stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode):
        gone.register(sys.stdout.fileno(), 0)
    while True:
        yield
        rest_s = _LOOK_EVERY_S if end_s is None else min(_LOOK_EVERY_S, end_s - time.monotonic())
        if rest_s <= 0:
            return
        if gone.poll(rest_s * 1000):
            raise BrokenPipeError


def _changes(
    before: dict[str, ElectionStatus] | None, now: Sequence[ElectionStatus]
) -> Iterator[tuple[str, ElectionStatus]]:
    """Yield what differs from the last look, by election; at the first look everything is "present"."""
    for status in now:
        was = (before or {}).get(status.election)
        token = status.incumbent.token if status.incumbent else None
        token_before = was.incumbent.token if was is not None and was.incumbent else None
        if before is None:
            yield "present", status
        elif token is None and (was is None or token_before is not None):
            yield "vacant", status
        elif token != token_before:
            yield "elected", status
        elif status.resign_asked and was is not None and not was.resign_asked:
            yield "resign-asked", status


def _tell(looks: Iterator[Seen], address: str, *, as_json: bool) -> None:
    """Print one line for every change."""
    before: dict[str, ElectionStatus] | None = None
    trouble = False
    for seen in looks:
        if isinstance(seen, TenureError):
            if not trouble:
                click.echo(f"tenure: {seen} (still trying)", err=True)
            trouble = True
            continue
        if trouble:
            click.echo(f"tenure: {address} answers again", err=True)
        elif before is None and not seen:
            click.echo(f"tenure: no elections yet at {address}", err=True)
        trouble = False
        for change, status in _changes(before, seen):
            now = datetime.now(UTC)
            if as_json:
                at = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
                line = json.dumps({"at": at, "store": address, "change": change, **as_object(status)})
            else:
                line = f"{now.astimezone():%Y-%m-%d %H:%M:%S}.{now:%f}"[:-3] + f"  {_sentence(change, status)}"
            click.echo(line)  # Which also flushes.
        before = {status.election: status for status in seen}


def _sentence(change: str, status: ElectionStatus) -> str:
    election, incumbent = shown(status.election), status.incumbent
    if incumbent is None:
        return f"{election}: nobody is in office"
    who = f"{shown(str(incumbent.holder))} with token {incumbent.token}"
    if incumbent.advertised:
        who += f" at {shown(redact(incumbent.advertised))}"
    if change == "present":
        return f"{election}: led by {who}" + (f" for {duration(status.held_for_ns)}" if status.held_for_ns else "")
    return f"{election}: {'asked to resign' if change == 'resign-asked' else 'elected'}: {who}"


def _show(looks: Iterator[Seen], address: str) -> None:
    """Keep a table up to date on the terminal."""
    from rich.console import Console  # noqa: PLC0415  (only a terminal pays for it)
    from rich.live import Live  # noqa: PLC0415

    before: dict[str, ElectionStatus] | None = None
    stands_out_until_s: dict[str, float] = {}
    # By default a signal ends the process there and then, and the terminal would be left without a cursor.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    with Live(console=Console(highlight=False), auto_refresh=False) as live:
        for seen in looks:
            now_s, note = time.monotonic(), ""
            if isinstance(seen, TenureError):
                note = f"{seen} (still trying)"
            else:
                changed = [status.election for change, status in _changes(before, seen) if change != "present"]
                stands_out_until_s |= dict.fromkeys(changed, now_s + _STANDS_OUT_S)
                before = {status.election: status for status in seen}
            fresh = {election for election, until_s in stands_out_until_s.items() if now_s < until_s}
            rows, room = list((before or {}).values()), max(live.console.height - _LINES_AROUND, 1)
            if len(rows) > room:
                note = note or f"and {len(rows) - room} more: name those to watch"
                rows = sorted(rows, key=lambda status: status.election not in fresh)[:room]
            live.update(table(rows, address, fresh=fresh, note=note), refresh=True)

"""``tenure resign``: ask a leader to leave office."""

import json
import time
from pathlib import Path
from typing import Any, Final

import click

from tenure.cli.completion import election_names
from tenure.cli.output import shown
from tenure.cli.reading import address_of, ask, reading
from tenure.cli.settings import DURATION, settings_of, store_options
from tenure.errors import ConfigError, StoreError
from tenure.model import Incumbent
from tenure.office.desk import check_name
from tenure.office.leaving import LOOK_EVERY_S, has_left
from tenure.office.opened import OpenStore
from tenure.stores.base import CanAskToResign

NOT_IN_TIME: Final = 75  # EX_TEMPFAIL of sysexits.h


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("election", shell_complete=election_names)
@store_options
@click.option("--wait", "wait_s", type=DURATION, help="Wait until it has left, at most this long; else exit code 75.")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
def command(  # noqa: PLR0913  (click hands every option in)
    *,
    election: str,
    store: str | None,
    config: Path | None,
    accept_best_effort: bool | None,
    wait_s: float | None,
    as_json: bool,
) -> int:
    """Ask the leader of ELECTION to leave office.

    It learns of it at its next renewal (one of hundreds that a process leads in etcd: later), stops its work and
    releases the office. It is a request: nothing is taken away, and it may stand again. If nobody is in office there is
    nothing to do, and that is said.

    \b
    Examples:
      tenure resign billing/close
      tenure resign billing/close --wait 30s
    """
    check_name(election)
    settings = settings_of(store=store, config=config, accept_best_effort=accept_best_effort, reading=True)
    with reading(settings) as opened:
        asked = None if opened is None else _ask_to_resign(opened, election)
        if not as_json:
            said = f"asked {_name(asked)} to leave" if asked is not None else "nobody is in office in"
            click.echo(f"{said} {election}")
        left = None
        if opened is not None and asked is not None and wait_s is not None:
            left = _left_within(opened, asked, wait_s)
    if as_json:
        click.echo(json.dumps(_as_object(election, address_of(settings), asked, left)))
    elif asked is not None and left is not None:
        click.echo(f"{_name(asked)} has left" if left else f"tenure: {_name(asked)} is still in office", err=not left)
    return NOT_IN_TIME if left is False else 0


def _ask_to_resign(opened: OpenStore, election: str) -> Incumbent | None:
    engine = opened.store
    if not isinstance(engine, CanAskToResign):
        rule = "cannot pass on such a request: end the leader's process by a signal, and it will resign"
        raise ConfigError("store", engine.address, rule)
    return ask(opened, "ask_to_resign", engine.ask_to_resign(election))


def _left_within(opened: OpenStore, asked: Incumbent, wait_s: float) -> bool:
    """Wait until that tenure is over."""
    end_s = time.monotonic() + wait_s
    while True:
        seen: Incumbent | StoreError | None
        try:
            seen = ask(opened, "read", opened.store.read(asked.election))
        except StoreError as error:
            seen = error
        rest_s = end_s - time.monotonic()
        if (left := has_left(asked, seen, rest_s)) is not None:
            return left
        time.sleep(min(LOOK_EVERY_S, rest_s))


def _name(incumbent: Incumbent) -> str:
    return f"{shown(str(incumbent.holder))} (token {incumbent.token})"


def _as_object(election: str, address: str, asked: Incumbent | None, left: bool | None) -> dict[str, Any]:
    return {
        "store": address,
        "election": election,
        "asked": None if asked is None else str(asked.holder),
        "token": None if asked is None else asked.token,
        "left": left,
    }

"""Where a crontab's elections are held, and where its runs are recorded."""

import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from tenure.apps.cron.crontab import Crontab
from tenure.apps.ledger.opening import is_server, open_ledger
from tenure.cli.settings import Settings, settings_of, store_options
from tenure.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])


def crontab_options(function: F) -> F:
    """Add FILE, ``--ledger``, ``--store`` and what belongs to it."""
    function = store_options(function)
    ledger = "Where runs are recorded: sqlite:///path, postgresql://… or mysql://…  [default: as FILE says, or beside the store]"
    function = click.option("--ledger", metavar="URL", help=ledger)(function)
    return click.argument("file", type=click.Path(path_type=Path))(function)


def place_of(  # noqa: PLR0913  (each by its name)
    crontab: Crontab,
    *,
    ledger: str | None,
    store: str | None,
    config: Path | None,
    accept_best_effort: bool | None,
    ttl: float | None = None,
    grace: float | None = None,
    reading: bool = False,
) -> tuple[Settings, str]:
    """Return the settings of the store, and the URL of the ledger. A database that is one may be the other as well."""
    named = ledger if ledger is not None else os.environ.get("TENURE_LEDGER") or crontab.ledger
    if named is not None:
        open_ledger(named)  # Which asks nothing of it, and refuses what can be none before it is taken for a store.
    settings = settings_of(
        store=store,
        config=config,
        ttl=ttl,
        grace=grace,
        accept_best_effort=accept_best_effort,
        reading=reading,
        otherwise=named if named is not None and is_server(named) else None,
    )
    return settings, named if named is not None else _beside(settings.store)


def _beside(store: str) -> str:
    """Return the ledger that belongs to a store. Whoever shares the one shares the other."""
    parts = urlsplit(store)
    if parts.scheme == "sqlite":
        path = PurePosixPath(parts.path)
        return f"sqlite://{path.with_name(f'{path.stem}-cron{path.suffix}')}"
    if parts.scheme in {"postgresql", "postgres", "mysql", "mariadb"}:
        return store
    rule = "must be named by --ledger, TENURE_LEDGER or in the crontab: schedulers on other machines could not read a file of this one"
    raise ConfigError("ledger", "none", rule)

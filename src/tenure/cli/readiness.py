"""The options by which ``tenure run`` shows others that it leads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tenure.apps.run.readiness import Signs
from tenure.apps.run.ready_http import listening_address
from tenure.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])


def readiness_options(function: F) -> F:
    """Add ``--ready-file``, ``--ready-http`` and ``--notify``."""
    notify = "Tell systemd (Type=notify) that this process is ready, how it goes, and that it lives."
    function = click.option("--notify", is_flag=True, help=notify)(function)
    http = "Answer 200 here while leading, and 503 otherwise.  [default host: 127.0.0.1]"
    function = click.option("--ready-http", metavar="HOST:PORT", help=http)(function)
    file = "Have this file there exactly while leading, and the command runs."
    return click.option("--ready-file", metavar="FILE", help=file)(function)


def signs_of(ready_file: str | None, ready_http: str | None, *, notify: bool) -> Signs:
    """Return what is to be shown. Raises ConfigError for a place that cannot be meant."""
    if ready_file is not None and (not ready_file.strip() or "\0" in ready_file or ready_file.endswith("/")):
        raise ConfigError("--ready-file", repr(ready_file), "must be the path of a file")
    http = None if ready_http is None else listening_address(ready_http)
    return Signs(None if ready_file is None else Path(ready_file), http, notify)

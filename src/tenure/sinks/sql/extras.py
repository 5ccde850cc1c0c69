"""Drivers are imported when they are used, and a missing one is told of with the command that installs it."""

from collections.abc import Iterator
from contextlib import contextmanager

from tenure.errors import ConfigError


@contextmanager
def needed(module: str, package: str) -> Iterator[None]:
    """Let a missing driver be a ConfigError."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module:
            raise
        raise ConfigError("driver", module, f"is not installed: pip install '{package}'") from error

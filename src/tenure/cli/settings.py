"""What a command is to work with: which store, and which timing.

An option wins over the environment, the environment over the file, the file over the default. An empty variable counts
as none. A URL may hold a password, so it is never printed from here: errors redact it.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import click

from tenure.apps.durations import duration_s
from tenure.errors import ConfigError, redact
from tenure.stores.opening import SCHEMES, default_ttl_s
from tenure.timing import Timing

F = TypeVar("F", bound=Callable[..., Any])

KEYS: Final = ("store", "ttl", "grace", "accept_best_effort", "history")
DEFAULT_TTL: Final = "[default: 8s; in Consul 10s]"
_FILE_BYTES_MAX: Final = 64 * 1024  # A few keys fit many times over; a device that never ends does not.
_READABLE_BY_OTHERS: Final = 0o044

_TRUE: Final = {"1", "true", "yes", "on"}
_FALSE: Final = {"0", "false", "no", "off"}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the options, the environment and the file come to."""

    store: str = field(repr=False)  # A URL that may hold secrets: never print it.
    timing: Timing
    store_is_given: bool  # False: nobody named a store, so it is the user's own.
    accept_best_effort: bool = False  # whether a store will do that cannot keep all that stores promise
    history: bool = True  # whether who led when is recorded


class _Duration(click.ParamType):  # type: ignore[type-arg]  # older ones take no argument
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ARG002
        return duration_s(param.opts[0] if param is not None else "duration", value)


DURATION: Final = _Duration()


def store_options(function: F) -> F:
    """Add ``--store``, ``--config`` and ``--accept-best-effort``."""
    accept = "Use a store that may have two leaders at once: Redis, Redlock."
    function = click.option("--accept-best-effort", is_flag=True, default=None, help=accept)(function)
    config = click.Path(path_type=Path)
    function = click.option("--config", type=config, metavar="FILE", help="Read settings from this TOML file.")(
        function
    )
    help_ = "Where elections are held, e.g. sqlite:///path.  [default: a file of your own]"
    return click.option("--store", metavar="URL", help=help_)(function)


def timing_options(function: F) -> F:
    """Add ``--ttl`` and ``--grace``."""
    grace = "How long before the end of its validity to stop.  [default: ttl/8]"
    function = click.option("--grace", type=DURATION, help=grace)(function)
    return click.option("--ttl", type=DURATION, help=f"How long a lease lasts unrenewed.  {DEFAULT_TTL}")(function)


def settings_of(  # noqa: PLR0913  (each by its name)
    *,
    store: str | None,
    config: Path | None,
    ttl: float | None = None,
    grace: float | None = None,
    accept_best_effort: bool | None = None,
    history: bool | None = None,
    reading: bool = False,
    otherwise: str | None = None,
) -> Settings:
    """Return what to work with. ``reading``: do not make the folder of the default store. ``otherwise``: the store if none is named."""
    file, table = _load(config)
    for key in table:
        if key not in KEYS:
            raise ConfigError("config", file, f"has an unknown key {key!r}: it may have {', '.join(KEYS)}")
    url = store if store is not None else os.environ.get("TENURE_STORE") or _store_in(file, table)
    ttl_s, grace_s = _seconds("ttl", ttl, file, table), _seconds("grace", grace, file, table)
    timing = Timing.of(ttl=default_ttl_s(url or otherwise or "") if ttl_s is None else ttl_s, grace=grace_s)
    given = url is not None
    if url is None:  # An empty one was given, and is refused below.
        url = otherwise
    if url is None:
        url = _default_store(make_folder=not reading)
    accepted = _flag("accept_best_effort", accept_best_effort, file, table)
    recorded = _flag("history", history, file, table, otherwise=True)
    return Settings(_checked(url), timing, given, accepted, recorded)


def _load(config: Path | None) -> tuple[Path, dict[str, Any]]:
    """Return the file of settings and what it says. Only the default one may be missing."""
    import tomllib  # noqa: PLC0415  (a command that is only asked for its help needs none)

    named = config or os.environ.get("TENURE_CONFIG")
    folder = Path() if named else _folder("config")
    if folder is None:
        return Path(), {}  # Who has no home has no file there either.
    file = Path(named) if named else folder / "config.toml"
    try:
        with file.open("rb") as opened:
            mode, content = os.fstat(opened.fileno()).st_mode, opened.read(_FILE_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        if not named:
            return file, {}
        raise ConfigError("config", file, f"cannot be read: {error.strerror}") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it.
        raise ConfigError("config", file, f"cannot be read: {getattr(error, 'strerror', error)}") from None
    if len(content) > _FILE_BYTES_MAX:
        raise ConfigError("config", file, f"must have at most {_FILE_BYTES_MAX} bytes")
    try:
        # Some editors begin a file with a mark of its byte order, which TOML does not know.
        table = tomllib.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ConfigError("config", file, f"is not TOML: {error}") from None
    url = table.get("store")
    # Not ``redact(url) != url``: it also replaces characters that cannot be printed, which are no secret.
    if isinstance(url, str) and "***" in redact(url) and mode & _READABLE_BY_OTHERS:
        click.echo(f"tenure: warning: {file} holds a secret and others can read it: chmod 600 {file}", err=True)
    return file, table


def _store_in(file: Path, table: dict[str, Any]) -> str | None:
    url = table.get("store")
    if url is None:
        return None
    if not isinstance(url, str) or not url:
        raise ConfigError(f"store in {file}", type(url).__name__, "must be a URL in quotes")
    return url


def _seconds(key: str, option: float | None, file: Path, table: dict[str, Any]) -> float | None:
    if option is not None:
        return option
    variable = f"TENURE_{key.upper()}"
    if said := os.environ.get(variable):
        return duration_s(variable, said)
    return duration_s(f"{key} in {file}", table[key]) if key in table else None


def _flag(key: str, option: bool | None, file: Path, table: dict[str, Any], *, otherwise: bool = False) -> bool:
    if option is not None:
        return option
    variable = f"TENURE_{key.upper()}"
    if said := os.environ.get(variable):
        if said.lower() not in _TRUE | _FALSE:
            raise ConfigError(variable, said[:40], "must be 1 or 0, true or false, yes or no")
        return said.lower() in _TRUE
    told = table.get(key, otherwise)
    if not isinstance(told, bool):
        raise ConfigError(f"{key} in {file}", str(told)[:40], "must be true or false, without quotes")
    return told


def _checked(url: str) -> str:
    try:
        scheme = urlsplit(url).scheme
    except ValueError as error:
        raise ConfigError("store", url, f"is not a URL: {error}") from None
    if scheme == "memory":
        rule = "lives in one process, so a command would elect nobody but itself: use sqlite:///absolute/path"
        raise ConfigError("store", url, rule)
    if scheme not in SCHEMES:
        usable = " or ".join(f"{name}://" for name in SCHEMES if name != "memory")
        raise ConfigError("store", url, f"must begin with {usable}")
    return url


def _default_store(*, make_folder: bool) -> str:
    folder = _folder("state")
    if folder is None:
        raise ConfigError("store", "none", "must be given by --store or TENURE_STORE: you have no home folder")
    if make_folder:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            rule = f"cannot be made ({error.strerror}): name another place by --store or TENURE_STORE"
            raise ConfigError("folder of the store", folder, rule) from None
    return f"sqlite://{quote(os.fsencode(folder / 'tenure.db'))}"


def _folder(kind: str) -> Path | None:
    """Return the user's folder of a kind, "config" or "state". Not everybody has one: a user of a container may not."""
    import platformdirs  # noqa: PLC0415  (a command that is only asked for its help needs none)

    try:
        path: Path = getattr(platformdirs, f"user_{kind}_path")("tenure", appauthor=False)
    except RuntimeError:
        return None
    # Older versions return "~/.local/state", and that would be made in whatever folder the command was started in.
    return path if path.is_absolute() else None

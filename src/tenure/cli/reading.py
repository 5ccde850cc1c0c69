"""A store as ``status``, ``watch``, ``resign`` and ``doctor`` use it: asked, and never made."""

import stat
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from tenure.cli.settings import Settings
from tenure.errors import ConfigError, Refused, Unreachable
from tenure.model import Incumbent
from tenure.office.opened import OpenStore, open_store
from tenure.stores.base import CanList, ElectionStatus
from tenure.stores.opening import make_store, path_of

T = TypeVar("T")

# Twice what an attempt may take at most (``Timing``): a person waits for it, and gets an error rather than nothing.
_ANSWER_WITHIN_S: Final = 10.0


def address_of(settings: Settings) -> str:
    """Return where the store is, as a URL without secrets, whether or not there is one."""
    address: str = make_store(settings.store, {}, accept_best_effort=settings.accept_best_effort).address
    return address


@contextmanager
def reading(settings: Settings) -> Iterator[OpenStore | None]:
    """Open a store to ask it. Gives None for a file that is not there yet, because opening it would make it.

    That is so for the user's own store only. One that was named and is not there is a slip of the pen, and must not
    look like a store without elections.
    """
    opened = open_store(
        settings.store, accept_best_effort=settings.accept_best_effort
    )  # Touches nothing yet, and refuses what is no store at all.
    if is_there(settings):
        with opened as store:
            yield store
    else:
        yield None


def is_there(settings: Settings) -> bool:
    """Say whether there is a store to be asked; raises if there should be, because it was named."""
    unmade = is_unmade(settings.store)
    if unmade and settings.store_is_given:
        rule = "is missing or empty: the file is made when somebody first stands, e.g. by tenure run"
        raise ConfigError("store", settings.store, rule)
    return not unmade


def ask(store: OpenStore, operation: str, call: Coroutine[Any, Any, T]) -> T:
    """Wait for a call to an open store, within a bound."""
    future = store.office.submit(call)
    try:
        return future.result(_ANSWER_WITHIN_S)
    except TimeoutError:
        future.cancel()
        raise Unreachable(store.store.address, operation, f"no answer within {_ANSWER_WITHIN_S:g} s") from None


def look(store: OpenStore | None, names: Sequence[str]) -> list[ElectionStatus]:
    """Return the named elections in that order, or all that the store knows of."""
    known: dict[str, ElectionStatus] = {}
    if store is not None:
        engine = store.store
        if isinstance(engine, CanList):
            known = {found.election: found for found in ask(store, "elections", engine.elections())}
        elif names:
            known = {name: status_of(name, ask(store, "read", engine.read(name))) for name in names}
        else:
            raise ConfigError("ELECTION", "none", f"must be named, because {engine.address} cannot list its elections")
        for status in known.values():
            _check_text(status, engine.address)
    return [known.get(name) or status_of(name) for name in names] if names else list(known.values())


def _check_text(status: ElectionStatus, address: str) -> None:
    """Refuse what cannot be shown. A file may hold anything where a name should be, if somebody wrote to it by hand."""
    texts: list[object] = [status.election]
    for holder in status.standbys:
        texts += [holder.host, holder.nonce]
    if status.incumbent is not None:
        texts += [status.incumbent.holder.host, status.incumbent.holder.nonce, status.incumbent.advertised]
    if not all(isinstance(text, str) for text in texts):
        rule = f"election {status.election} has a name in it that is no text: somebody has written to the store by hand"
        raise Refused(address, "elections", rule)


def status_of(election: str, incumbent: Incumbent | None = None) -> ElectionStatus:
    """Return all that is known of an election if only its incumbent is."""
    return ElectionStatus(election, incumbent, None, None, resign_asked=False, standbys=())


def is_unmade(url: str) -> bool:
    """Say whether the store is a file that opening it would make."""
    if urlsplit(url).scheme != "sqlite":
        return False
    try:
        found = Path(path_of(url)).stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False  # Whoever opens it will say why it cannot be.
    # An empty file counts as none: the first who opens it makes a database of it.
    return stat.S_ISREG(found.st_mode) and found.st_size == 0

"""Why a server was not reached, told alike by all clients, with what to do about it."""

import errno
from collections.abc import Iterable
from typing import Final

NO_HOST: Final = "no such host: check its name in the URL"


def nobody_listens(error: Exception) -> bool:
    """Say whether every address of a host has refused the connection.

    That is the kind of the error if the host has one. Of several, as ``localhost`` has, asyncio tells in one text.
    """
    said = str(error) if isinstance(error, OSError) and error.errno is None else ""
    refused_count = said.count(f"[Errno {errno.ECONNREFUSED}]")
    return isinstance(error, ConnectionRefusedError) or said.count("[Errno ") == refused_count > 0


def by_what_they_did(tried: Iterable[tuple[object, str]]) -> str:
    """Say of each server that was tried what came of it, and of those alike in one sentence."""
    where: dict[str, list[str]] = {}
    for endpoint, did in tried:
        where.setdefault(did, []).append(str(endpoint))
    return "; ".join(f"{', '.join(endpoints)}: {did}" for did, endpoints in where.items())

"""What the URLs of MySQL say about encryption, to stores and sinks alike."""

import ssl
from collections.abc import Mapping
from typing import Final, NamedTuple

from tenure.clients.tls import tls_context
from tenure.errors import ConfigError

_CERTIFICATES: Final = frozenset({"ssl_ca", "ssl_cert", "ssl_key"})
_MODES: Final = ("disabled", "required", "verify_ca", "verify_identity")
MYSQL_TLS_OPTIONS: Final = _CERTIFICATES | {"ssl_mode"}


class Encryption(NamedTuple):
    """How a server is spoken to. ``tls`` is None if it is in plain text."""

    mode: str
    tls: ssl.SSLContext | None


def encryption_of(given: Mapping[str, str]) -> Encryption:
    """Return what options ask for. Raises ConfigError for what cannot be meant.

    ``ssl_mode`` is ``disabled``, ``required``, ``verify_ca`` or ``verify_identity``, as for the ``mysql`` command, and the last of
    them once ``ssl_ca`` names a file; ``ssl_cert`` and ``ssl_key`` are the client's own.
    """
    has_certificates = not given.keys().isdisjoint(_CERTIFICATES)
    mode = given.get("ssl_mode", "verify_identity" if has_certificates else "disabled")
    if mode not in _MODES:
        raise ConfigError("ssl_mode", mode, f"must be one of {', '.join(_MODES)}")
    if mode == "disabled":
        if has_certificates:
            raise ConfigError("ssl_mode", mode, "is not encrypted, and certificates are given: leave one of both out")
        return Encryption(mode, None)
    context = tls_context(given.get("ssl_ca"), given.get("ssl_cert"), given.get("ssl_key"))
    context.check_hostname = mode == "verify_identity"
    if mode == "required":
        context.verify_mode = ssl.CERT_NONE
    return Encryption(mode, context)

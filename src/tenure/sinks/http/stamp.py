"""What a leader's requests carry, and to whom: the header for one origin and for no other."""

from typing import Final
from urllib.parse import urlsplit

from tenure.errors import ConfigError
from tenure.model import token as checked
from tenure.sinks.base import Bound
from tenure.sinks.http.header import Presented, value_of
from tenure.sinks.http.signing import LIFETIME_S, Signing, signer_of

_PORTS: Final = {"http": 80, "https": 443}

Origin = tuple[str, str, int]


def origin_of(url: str) -> Origin:
    """Return scheme, host and port. Raises ConfigError for what has none, without a password that may be in it."""
    try:
        split = urlsplit(url)
        scheme, host, port = split.scheme.lower(), (split.hostname or "").lower(), split.port
    except ValueError:
        # Not the words of that error: it may repeat a part of a password as a port.
        raise ConfigError("url", without_secrets(url), "must be an http or https URL with a host and a port") from None
    if scheme not in _PORTS or not _is_host(host):
        raise ConfigError("url", without_secrets(url), "must be an http or https URL with a host")
    return scheme, host, port or _PORTS[scheme]


def _is_host(host: str) -> bool:
    try:
        host.encode("idna")  # as whoever looks it up will
    except UnicodeError:
        return False
    return host != "" and host.isprintable() and " " not in host


def without_secrets(url: str) -> str:
    """Return an URL without what may be a user and a password, however badly it is written, and without its query."""
    scheme, sign, rest = url.partition("://")
    if not sign:
        scheme, rest = "", url
    _, at, rest = rest.rpartition("@")
    return f"{scheme}{sign}{'***' if at else ''}{at}{rest.partition('?')[0].partition('#')[0]}"


class Stamp:
    """Gives the header's value for requests of one tenure to one origin; everybody else gets none.

    Not even a redirect carries a token to strangers, who could present it themselves. Without a ``secret`` the header is not
    signed.
    """

    __slots__ = ("_origin", "_signer", "_term", "lifetime_s")

    def __init__(self, term: Bound, origin: str, secret: Signing | None = None, lifetime_s: int = LIFETIME_S) -> None:
        self._term, self._origin, self.lifetime_s = term, origin_of(origin), lifetime_s
        self._signer = signer_of(secret)

    def value_for(self, url: str) -> str | None:
        """Return the header's value for a request to ``url``, or None if it goes elsewhere.

        Raises TenureOver if the tenure is over: what is certain to be refused need not be sent.
        """
        try:
            is_ours = origin_of(url) == self._origin
        except ConfigError:  # A redirect may lead to what is no URL at all. Whoever follows it will say so.
            is_ours = False
        if not is_ours:
            return None
        check = getattr(self._term, "check", None)  # A Tenure has it; other things that a write is bound to need not.
        if check is not None:
            check()
        presented = Presented(checked(self._term.token), self._term.fence)
        if self._signer is None:
            return value_of(presented)
        return self._signer.header_value(presented, self.lifetime_s)

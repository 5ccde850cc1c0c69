"""Who may present a token: whoever shares a secret. HMAC-SHA256 over token, fence and expiry.

Without a signature anybody who reaches a service can present 2⁶² and lock its leader out. With one, only who knows the
secret can. A signature does not cover the request's path or body, so it says who speaks and not what: use TLS. Its expiry
bounds for how long a header that was overheard can be used, by the clocks on the wall of both machines, which decide nothing
else: what is stale is judged by tokens alone. A service takes no expiry that lies further ahead than a leader's own can, so
each header counts for ``LIFETIME_S + 2 * SKEW_S`` of the service's clock at most.
"""

import hmac
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NoReturn, Protocol

from tenure.errors import ConfigError
from tenure.sinks.http.header import Presented, value_of

LIFETIME_S: Final = 60
SKEW_S: Final = 30
_SECRET_MIN_BYTES: Final = 16


class Signer(Protocol):
    """What signs a leader's headers: a ``Secret``, or a ``JwtSigner``."""

    def header_value(self, presented: Presented, lifetime_s: int = LIFETIME_S) -> str:
        """Return the header's value, signed for some seconds."""
        ...


Signing = str | bytes | Signer


def signer_of(secret: Signing | None) -> Signer | None:
    """Return what signs: a text or bytes as a Secret, and None for None. Raises ConfigError for what cannot sign."""
    if secret is None:
        return None
    if isinstance(secret, str | bytes):
        return Secret(secret)
    if not hasattr(secret, "header_value"):
        raise ConfigError("secret", "(hidden)", "must be text, bytes, a Secret or a JwtSigner")
    return secret


def key_bytes(text: str | bytes, setting: str) -> bytes:
    """Return what is secret as bytes. Raises ConfigError, which repeats nothing of it, nor does any error behind that one.

    A text from ``os.environ`` is the same key as its bytes, also where they are not UTF-8.
    """
    if not isinstance(text, str | bytes):
        raise ConfigError(setting, "(hidden)", "must be text or bytes")
    if isinstance(text, bytes):
        return text
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        pass  # It holds all of the text, and would be the context of what is raised here.
    raise ConfigError(setting, "(hidden)", "must be text that UTF-8 can say, or bytes")


class Unwritten:
    """What holds a key: it is not pickled, so that the key is in no file and in no queue by accident."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} holds a key and cannot be pickled or copied: make one where it is used"
        )


def time_fault(expires: int, skew_s: int) -> str | None:
    """Return what is wrong with an expiry in one word, ``expired`` or ``early``: no leader signs for so long. None if it holds."""
    left_s = expires - time.time()
    if left_s + skew_s < 0:
        return "expired"
    return "early" if left_s > LIFETIME_S + skew_s else None


class Secret(Unwritten):
    """A secret that cannot be printed or pickled."""

    __slots__ = ("_key",)

    def __init__(self, secret: "str | bytes | Secret") -> None:
        if isinstance(secret, Secret):
            self._key: bytes = secret._key  # noqa: SLF001  (its own kind)
            return
        self._key = key_bytes(secret, "secret")
        if len(self._key) < _SECRET_MIN_BYTES:
            raise ConfigError("secret", "(hidden)", f"must have at least {_SECRET_MIN_BYTES} bytes")

    def __repr__(self) -> str:
        return "<Secret>"

    def sign(self, presented: Presented, lifetime_s: int = LIFETIME_S) -> Presented:
        """Return the same with a signature that expires."""
        dated = replace(presented, expires=int(time.time()) + lifetime_s)
        return replace(dated, signature=self._signature(dated))

    def header_value(self, presented: Presented, lifetime_s: int = LIFETIME_S) -> str:
        """Return the header's value with such a signature."""
        return value_of(self.sign(presented, lifetime_s))

    def signed(self, presented: Presented) -> bool:
        """Return whether the signature was made with this secret. Takes the same time whatever is wrong."""
        return hmac.compare_digest(self._signature(presented), presented.signature or "")

    def _signature(self, presented: Presented) -> str:
        return hmac.digest(self._key, presented.signed_text, "sha256").hex()


class Keys:
    """The secrets that a service accepts: one, or during a rotation the old and the new one."""

    __slots__ = ("_secrets",)

    def __init__(self, secrets: Iterable[str | bytes | Secret]) -> None:
        self._secrets = tuple(Secret(secret) for secret in secrets)

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def fault(self, presented: Presented, skew_s: int = SKEW_S) -> str | None:
        """Return what is wrong with a signature in one word: ``unsigned``, ``expired`` or ``early``; None if it holds."""
        # Every secret is tried, so that time does not tell which one it was.
        matches = [secret.signed(presented) for secret in self._secrets]
        if presented.expires is None or True not in matches:
            return "unsigned"
        return time_fault(presented.expires, skew_s)

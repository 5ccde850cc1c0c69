"""Who may present a token, said by a JSON web token: the standard's way to what ``signing`` does with nothing but Python.

It is for those who have keys of their own already, or who do not want a service to be able to speak as the leader: with a
private key on one side and the public one on the other it cannot. A web token does not cover the request's path or
body either, and can be used by whoever overhears it until it expires: use TLS. A service that is handed one can pass it on
to another service, so where that matters each has an ``audience`` of its own.

PyJWT makes and compares signatures. The claims are judged here: it would take "7", 7.0 and true for times.
"""

import time
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from tenure.errors import ConfigError
from tenure.model import token as checked
from tenure.sinks.http.header import VALUE_MAX, Malformed, Presented, checked_fence
from tenure.sinks.http.jwt_claims import TYPE, Claims, algorithm_in, claims_in, is_utf8, payload_of
from tenure.sinks.http.jwt_keys import Key, private_key, public_key, pyjwt, shared_key
from tenure.sinks.http.refusing import Refusal
from tenure.sinks.http.signing import LIFETIME_S, Unwritten, time_fault

_VERIFIED_MAX: Final = 256


class _Keyed(Unwritten):
    """A key that cannot be printed or pickled, and whom tokens are for."""

    __slots__ = ("_jws", "_key", "audience")

    def __init__(self, key: Key, audience: str | None) -> None:
        self._key, self.audience = key, _named("audience", audience)
        self._jws: Any = pyjwt().PyJWS(algorithms=[key.algorithm])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._key.algorithm}>"


class JwtSigner(_Keyed):
    """Signs a leader's headers as JSON web tokens: ``secret=JwtSigner.private(pem)`` wherever a ``secret`` is taken.

    Does not promise that a service which was handed such a token cannot pass it on until it expires; with an ``audience``, to no
    other than that.
    """

    __slots__ = ("_last",)

    def __init__(self, key: Key, audience: str | None = None) -> None:
        super().__init__(key, audience)
        self._last: tuple[Claims, str] | None = None

    @classmethod
    def shared(cls, secret: str | bytes, *, audience: str | None = None) -> "JwtSigner":
        """Sign by a secret of at least 32 bytes that the service has too (HS256)."""
        return cls(shared_key(secret), audience)

    @classmethod
    def private(cls, pem: str | bytes, *, audience: str | None = None) -> "JwtSigner":
        """Sign by a private key in PEM: RSA (RS256), P-256 (ES256) or Ed25519 (EdDSA)."""
        return cls(private_key(pem), audience)

    def header_value(self, presented: Presented, lifetime_s: int = LIFETIME_S) -> str:
        """Return the header's value, signed for some seconds. Raises ConfigError for what cannot be presented."""
        now = int(time.time())
        # Nothing but these two is signed, whatever else is presented.
        named = Presented(checked(presented.token), checked_fence(presented.fence))
        claims = Claims(named, now + lifetime_s, now, self.audience)
        last = self._last
        if last is not None and last[0] == claims:
            # One text for a second: a signature by RSA takes a millisecond, and a service that has seen a text need not verify it again.
            return last[1]
        value: str = self._jws.encode(payload_of(claims), self._key.material, self._key.algorithm, {"typ": TYPE})
        if len(value) > VALUE_MAX:
            rule = f"must be shorter: the header would have over {VALUE_MAX} characters"
            raise ConfigError("fence", presented.fence, rule)
        self._last = claims, value
        return value


class JwtKey(_Keyed):
    """One key that a service accepts JSON web tokens by: ``Guard(…, keys=[JwtKey.public(pem)])``.

    A token that names an audience counts only where the key has the same one, and one that names none only where it has none.
    With a ``fence`` the key speaks for that fence alone; without one, for every fence of its Guard.
    """

    __slots__ = ("fence",)

    def __init__(self, key: Key, audience: str | None = None, fence: str | None = None) -> None:
        super().__init__(key, audience)
        self.fence = _named("fence", fence)

    @classmethod
    def shared(cls, secret: str | bytes, *, audience: str | None = None, fence: str | None = None) -> "JwtKey":
        """Accept what was signed by this secret, of at least 32 bytes (HS256). Whoever verifies by it can sign by it."""
        return cls(shared_key(secret), audience, fence)

    @classmethod
    def public(cls, pem: str | bytes, *, audience: str | None = None, fence: str | None = None) -> "JwtKey":
        """Accept what was signed by the private key to this public one, in PEM: RSA, P-256 or Ed25519."""
        return cls(public_key(pem), audience, fence)

    def signed(self, value: str, algorithm: str) -> bytes | None:
        """Return what this key has signed; None if it was another, or another algorithm than the key's own."""
        if algorithm != self._key.algorithm:
            return None
        try:
            found: bytes = self._jws.decode(value, self._key.material, [algorithm])
        except pyjwt().PyJWTError:
            return None
        return found


class JwtKeys:
    """The keys that a service accepts web tokens by: one, or during a rotation the old and the new one."""

    __slots__ = ("_keys", "_verified")

    def __init__(self, keys: Iterable[JwtKey]) -> None:
        self._keys = tuple(keys)
        if not all(isinstance(key, JwtKey) for key in self._keys):
            raise ConfigError("keys", "(hidden)", "must be a list of JwtKey")
        # Only what a key has signed is kept: nobody else can fill it. Times are judged anew for every request.
        self._verified = lru_cache(_VERIFIED_MAX)(self._verify)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def judge(self, value: str, skew_s: int) -> Presented | Refusal:
        """Return what a web token presents, or why it is worth nothing."""
        try:
            claims, audiences = self._verified(value)
        except Malformed as error:
            return Refusal("malformed", str(error))
        except _Unsigned:
            return Refusal("unsigned")
        fault = time_fault(claims.expires, skew_s)
        if fault is None and claims.not_before - skew_s > time.time():
            fault = "early"
        if fault is not None:
            return Refusal(fault)
        return claims.presented if claims.audience in audiences else Refusal("other-audience")

    def _verify(self, value: str) -> tuple[Claims, frozenset[str | None]]:
        algorithm = algorithm_in(value)
        signed = {key: found for key in self._keys if (found := key.signed(value, algorithm)) is not None}
        if not signed:
            raise _Unsigned
        claims = claims_in(next(iter(signed.values())))
        # A key of another fence is no key of this one: its holder learns no more here than a stranger does.
        audiences = frozenset(key.audience for key in signed if key.fence in {None, claims.presented.fence})
        if not audiences:
            raise _Unsigned
        return claims, audiences


class _Unsigned(Exception):
    """None of the keys that may speak for its fence has signed it."""


def _named(setting: str, name: object) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str) or not name or not is_utf8(name):
        raise ConfigError(setting, ascii(name), "must be a name that UTF-8 can say, or be left out")
    return name

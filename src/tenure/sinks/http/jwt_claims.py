"""What a JSON web token of a leader says. The grammar of its parts, and nothing else; no IO and no cryptography.

    {"alg": "ES256", "typ": "tenure+jwt"}
    {"token": 42, "fence": "etcd://h1/billing", "nbf": 1767225540, "exp": 1767225600, "aud": "billing-service"}

It is read more strictly than the standard asks. The header may have ``alg``, ``typ`` and ``kid`` and nothing else: what it has
beyond them would have to be obeyed (``crit``, ``b64``) or must not be (``jku``, ``x5u``, ``jwk``). Its type is our own, so no token that
the same key has signed for another purpose is taken for one of these. Numbers are whole and are not texts, no name comes
twice, and base64 has one spelling. Claims that are not named here are left alone.
"""

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Any, Final

from tenure.model import TOKEN_MAX, Token
from tenure.sinks.http.header import VALUE_MAX, Malformed, Presented

TYPE: Final = "tenure+jwt"
_MEMBERS: Final = frozenset({"alg", "typ", "kid"})
_TIME_MAX: Final = 10**12  # twelve digits, as ``expires`` of a header has
_GRAMMAR: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Claims:
    """What was signed: what is presented, with its expiry, from when on, and to whom."""

    presented: Presented
    expires: int
    not_before: int
    audience: str | None


def is_jwt(value: str) -> bool:
    """Whether a header's value has the form of a JSON web token. No value of the other grammar has it."""
    return len(value) <= VALUE_MAX and _GRAMMAR.fullmatch(value) is not None


def algorithm_in(value: str) -> str:
    """Return what algorithm a token says it is signed by, which proves nothing. Raises Malformed."""
    head, _, _ = [_decoded(part) for part in value.split(".")]
    members = _object(head, "header")
    algorithm = members.get("alg")
    if not isinstance(algorithm, str):
        raise Malformed("the web token names no algorithm")
    if members.get("typ") != TYPE:
        raise Malformed(f"the web token is not of the type {TYPE}")
    if not members.keys() <= _MEMBERS:
        raise Malformed("the header of the web token has more than alg, typ and kid")
    if not all(isinstance(member, str) for member in members.values()):
        # PyJWT reads the header once more, deeper in the stack: what just fitted here may be too deep for it.
        raise Malformed("the header of the web token has what is no text")
    return algorithm


def payload_of(claims: Claims) -> bytes:
    """Return the text that is signed."""
    found: dict[str, object] = {"token": claims.presented.token, "fence": claims.presented.fence}
    found |= {"nbf": claims.not_before, "exp": claims.expires}
    if claims.audience is not None:
        found["aud"] = claims.audience
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()


def claims_in(payload: bytes) -> Claims:
    """Return what was signed. Raises Malformed, with the name of the claim that is missing or cannot be."""
    found = _object(payload, "claims")
    fence, audience = found.get("fence"), found.get("aud")
    if not isinstance(fence, str) or not fence or "\0" in fence or not is_utf8(fence):
        raise Malformed("the web token's claim fence must be the name of a fence")
    if "aud" in found and not isinstance(audience, str):
        raise Malformed("the web token's claim aud must be one text")
    token = _whole(found, "token", 1, TOKEN_MAX)
    expires = _whole(found, "exp", 0, _TIME_MAX)
    return Claims(Presented(Token(token), fence, expires), expires, _whole(found, "nbf", 0, _TIME_MAX), audience)


def _whole(found: dict[str, Any], name: str, low: int, high: int) -> int:
    number = found.get(name)
    # True is an int in Python, and 7.0 equals 7.
    if type(number) is not int or not low <= number <= high:
        raise Malformed(f"the web token's claim {name} must be a whole number from {low} to {high}")
    return number


def is_utf8(text: str) -> bool:
    """Whether a text can be sent."""
    try:
        text.encode()
    except UnicodeEncodeError:  # JSON can say half of a surrogate pair.
        return False
    return True


def _decoded(part: str) -> bytes:
    try:
        found = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        raise Malformed("the web token is not base64") from None
    if urlsafe_b64encode(found).rstrip(b"=").decode() != part:
        raise Malformed("the web token is not base64 as it must be")
    return found


def _object(raw: bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(raw.decode(), object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError):  # Brackets enough to exhaust the stack fit into a header.
        raise Malformed(f"the web token's {what} cannot be read") from None
    if not isinstance(found, dict):
        raise Malformed(f"the web token's {what} must be an object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name that comes twice can be read in two ways")
    return found


def _no_number(name: str) -> Any:
    raise ValueError(name)

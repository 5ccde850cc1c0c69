"""``Tenure-Token``: how a request says under which tenure it is made. The grammar, and nothing else; no IO.

    Tenure-Token: 42; fence=etcd%3A%2F%2Fh1%2Fbilling
    Tenure-Token: 42; fence=etcd%3A%2F%2Fh1%2Fbilling; expires=1767225600; signature=9f86d0…

The token is decimal, without a sign and without leading zeros. The name of the fence is UTF-8, percent-encoded but for
letters, digits and ``-._~``, in capitals. ``expires`` is in seconds since 1970 and comes with a signature, which is 64 digits of
small hexadecimal. The order is fixed and there is one spelling of everything, so two texts that differ mean different things. A
comma cannot stand in it: where a server joins headers that came twice, the result is refused.

In place of all this the value can be a JSON web token, which says the same by claims: see ``jwt_claims``.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from tenure.errors import ConfigError
from tenure.model import TOKEN_MAX, Token
from tenure.model import token as checked

NAME: Final = "Tenure-Token"
HIGHEST: Final = "Tenure-Highest"  # in answers: the highest token that was seen
REFUSED: Final = "Tenure-Refused"  # in answers: why, in one word
VALUE_MAX: Final = 2048
_UNRESERVED: Final = "-._~"
_GRAMMAR: Final = re.compile(
    r"(?P<token>[1-9][0-9]{0,18}); fence=(?P<fence>[A-Za-z0-9%._~-]+)"
    r"(?:; expires=(?P<expires>0|[1-9][0-9]{0,11}); signature=(?P<signature>[0-9a-f]{64}))?"
)


class Malformed(Exception):
    """What a header says is not of the grammar. The text tells what, and repeats nothing of it."""


@dataclass(frozen=True, slots=True)
class Presented:
    """What a request presents: a token and its fence, so a sink can be bound to it; and what vouches for them."""

    token: Token
    fence: str
    expires: int | None = None
    signature: str | None = field(
        default=None, repr=False
    )  # Whoever reads it in a log could present it until it expires.

    @property
    def signed_text(self) -> bytes:
        """What a signature is made of."""
        return f"tenure-token-1\n{self.token}\n{_encoded(self.fence)}\n{self.expires}".encode("ascii")


def value_of(presented: Presented) -> str:
    """Return the header's value. Raises ConfigError for a token or a fence that cannot be one."""
    value = f"{checked(presented.token)}; fence={_encoded(checked_fence(presented.fence))}"
    if presented.signature is not None:
        value += f"; expires={presented.expires}; signature={presented.signature}"
    if len(value) > VALUE_MAX:
        raise ConfigError(
            "fence", presented.fence, f"must be shorter: the header would have over {VALUE_MAX} characters"
        )
    return value


def checked_fence(fence: str) -> str:
    """Return the name of a fence. Raises ConfigError for what cannot be one."""
    if not fence or "\0" in fence:
        raise ConfigError("fence", repr(fence), "must have a name, without a NUL in it")
    _encoded(fence)
    return fence


@lru_cache(maxsize=256)  # A leader's requests carry the same text for a second at least, and often for a whole tenure.
def read(value: str) -> Presented:
    """Return what a header's value says. Raises Malformed."""
    if len(value) > VALUE_MAX:
        raise Malformed(f"it has more than {VALUE_MAX} characters")
    found = _GRAMMAR.fullmatch(value)
    if found is None:
        raise Malformed(
            "it must read: token; fence=name, and perhaps; expires=seconds; signature=hex; or be a web token"
        )
    token = int(found["token"])
    if token > TOKEN_MAX:
        raise Malformed(f"the token is larger than {TOKEN_MAX}")
    try:
        fence = unquote_to_bytes(found["fence"]).decode()
    except UnicodeDecodeError:
        raise Malformed("the fence is not UTF-8") from None
    if _encoded(fence) != found["fence"] or "\0" in fence:
        raise Malformed("the fence is not encoded as it must be")
    expires = None if found["expires"] is None else int(found["expires"])
    return Presented(Token(token), fence, expires, found["signature"])


@lru_cache(maxsize=256)
def _encoded(fence: str) -> str:
    try:
        return quote(fence, safe=_UNRESERVED)
    except UnicodeEncodeError:
        raise ConfigError("fence", repr(fence), "must be text that UTF-8 can say") from None

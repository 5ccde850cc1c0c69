"""How an election looks in Consul: the one key of ``api.Lock`` in Go and of ``consul lock``.

Election ``x`` is the key ``x/.lock``, with a number in its flags that says that it is a lock. Whoever's session holds the key
is in office. The engine's count of its own writes at the one that took the key (ModifyIndex) is the token: it is given out
once, in one order, by consensus, also if the key was deleted in between. (LockIndex is none: it begins at 1 again.)

The key stays when its holder leaves. What the holder wrote in it is one line of JSON; if that is written anew in the same
tenure, ModifyIndex moves on, so the token goes into the text then.
"""

from typing import Final
from urllib.parse import unquote

from tenure.clients.consul.messages import Pair
from tenure.errors import Refused
from tenure.model import Incumbent, Token
from tenure.stores.entry import Entry, read_entry

LOCK_FLAG: Final = 0x2DDCCBC058A50C18
_SEMAPHORE_FLAG: Final = 0xE0F69A2BAA414DE0
LOCK: Final = "/.lock"


def key_of(prefix: str, election: str, address: str, operation: str) -> str:
    """Return the key of an election. Refuses a name of which Consul would make another one, or none."""
    if not election.isprintable():
        rule = (
            f"the name {election!r} has a character that cannot be printed, which Consul refuses in a path: use another"
        )
        raise Refused(address, operation, rule)
    parts = unquote(election).split("/")  # ``consul lock`` takes the name for a path, in which %2e is a dot.
    if any(part in {"", ".", ".."} for part in parts):
        rule = (
            f"the name {election!r} has an empty part, '.' or '..', which Consul's own programs leave out: use another"
        )
        raise Refused(address, operation, rule)
    return f"{prefix}{election}{LOCK}"


def check_lock(pair: Pair | None, address: str, operation: str) -> None:
    """Refuse a key that is something else than a lock: taking it would destroy what it is."""
    if pair is None or pair.flags == LOCK_FLAG:
        return
    what = "a semaphore (consul lock -n)" if pair.flags == _SEMAPHORE_FLAG else "no lock, and holds something else"
    rule = f"the key {pair.key} is {what}: use another name, or delete it with consul kv delete if nobody needs it"
    raise Refused(address, operation, rule)


def entry_in(pair: Pair) -> Entry:
    """Return what the holder of a key wrote in it."""
    return read_entry(pair.value, pair.session)


def token_in(pair: Pair) -> Token:
    """Return the token of whoever holds a key. A text that names one from the future was not written by its holder."""
    written = entry_in(pair).token
    return Token(written if 0 < written <= pair.modify_index else pair.modify_index)


def incumbent_of(election: str, pair: Pair | None) -> Incumbent | None:
    """Return who holds a key."""
    if pair is None or not pair.session or pair.flags != LOCK_FLAG:
        return None
    entry = entry_in(pair)
    return Incumbent(election, entry.holder, token_in(pair), entry.advertised)

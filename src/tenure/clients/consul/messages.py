"""What is asked of Consul, and what it says of a key.

A transaction is a list of operations, of which all are carried out or none; there is no "else". So whoever wants to know why
one was refused asks again.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

Op = dict[str, Any]
"""One operation of a transaction, as Consul reads it: ``{"KV": {"Verb": …, "Key": …}}``."""

# So many take 1.10 and older; newer ones take 128.
OPS_MAX: Final = 64
READING: Final = frozenset({"get", "get-or-empty", "get-tree", "check-index", "check-session", "check-not-exists"})


@dataclass(frozen=True, slots=True)
class Pair:
    """A key as the engine has it. The answer to a write has no value in it."""

    key: str
    value: bytes
    flags: int
    session: str  # which session holds it; empty: none
    modify_index: int  # the engine's count of its own writes when this one was made: it never repeats, and only rises


@dataclass(frozen=True, slots=True)
class About:
    """What an agent says of itself."""

    version: str
    date: str  # what its clock shows; empty: not told
    is_server: bool
    # How long servers hear nothing of their leader before they elect another one, and how many connections one address may
    # have. Both stand among what Consul shows for debugging, and promises nothing of; empty and 0: not told.
    election_timeout: str
    connections_max: int


def lock(key: str, value: bytes, flags: int, session: str) -> Op:
    """Write a key and hold it by a session; refused if another session holds it."""
    return _kv("lock", key, Value=_text(value), Flags=flags, Session=session)


def unlock(key: str, value: bytes, flags: int, session: str) -> Op:
    """Write a key and hold it no more; refused if that session does not hold it."""
    return _kv("unlock", key, Value=_text(value), Flags=flags, Session=session)


def put(key: str, value: bytes, flags: int = 0) -> Op:
    """Write a key, whatever is there. Who holds it stays."""
    return _kv("set", key, Value=_text(value), Flags=flags)


def delete(key: str) -> Op:
    """Delete a key. One that is not there is fine."""
    return _kv("delete", key)


def put_if_unchanged(key: str, value: bytes, flags: int, index: int) -> Op:
    """Write a key that nobody has written since ``index``; 0: that is not there. Who holds it stays.

    Consul does not count a write that changes nothing: the index stays as it was then.
    """
    return _kv("cas", key, Value=_text(value), Flags=flags, Index=index)


def unchanged(key: str, index: int) -> Op:
    """Refuse the transaction if somebody has written the key since ``index``; 0: if it is there."""
    return _kv("check-index", key, Index=index) if index else _kv("check-not-exists", key)


def read(key: str) -> Op:
    """Read a key; refused if it is not there."""
    return _kv("get", key)


def _kv(verb: str, key: str, **fields: object) -> Op:
    return {"KV": {"Verb": verb, "Key": key, **fields}}


def _text(value: bytes) -> str:
    return b64encode(value).decode("ascii")


def reads_only(ops: Iterable[Op]) -> bool:
    """Say whether a transaction changes nothing. Consul then does not write it down either, and so it may be old."""
    return all(op.get("KV", {}).get("Verb") in READING for op in ops)


def pairs_of(body: bytes) -> list[Pair]:
    """Return the keys in the answer to a read. Raises ValueError for what no Consul says."""
    found = json.loads(body)
    if not isinstance(found, list):
        raise TypeError("that is no list of keys")
    return [_pair(fields) for fields in found]


def results_of(body: bytes) -> list[Pair]:
    """Return the keys in the answer to a transaction."""
    return [_pair(result["KV"]) for result in json.loads(body).get("Results") or () if "KV" in result]


def errors_of(body: bytes) -> dict[int, str]:
    """Return what was wrong with which operation of a transaction, by its number."""
    return {int(error["OpIndex"]): str(error["What"]) for error in json.loads(body).get("Errors") or ()}


def about_of(body: bytes, date: str) -> About:
    """Return what an agent says of itself."""
    said = json.loads(body)
    settings, inside = said["Config"], said.get("DebugConfig") or {}
    return About(
        str(settings["Version"]),
        date,
        bool(settings.get("Server")),
        str(inside.get("ConsulRaftElectionTimeout") or ""),
        int(inside.get("HTTPMaxConnsPerClient") or 0),
    )


def _pair(fields: dict[str, Any]) -> Pair:
    return Pair(
        str(fields["Key"]),
        b64decode(fields.get("Value") or ""),
        int(fields["Flags"]),
        str(fields.get("Session") or ""),
        int(fields["ModifyIndex"]),
    )

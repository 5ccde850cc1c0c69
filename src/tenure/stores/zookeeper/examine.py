"""The examination of a ZooKeeper ensemble: each server by itself, then what they decide together."""

import asyncio
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tenure.clients.zookeeper import Code, Fault, Session, Settings, told
from tenure.clients.zookeeper.faults import why_not
from tenure.clients.zookeeper.wire import delete, get_data, set_data
from tenure.clock import BootClock
from tenure.errors import Refused, StoreError
from tenure.stores.examining import Finding, bad, good, warning
from tenure.stores.judging import (
    judge_clock,
    judge_members,
    judge_plain,
    judge_quorum,
    judge_versions,
    promises,
    undecided,
)
from tenure.stores.measuring import look_at_certificates, part, trial_name, try_election

if TYPE_CHECKING:
    from tenure.stores.zookeeper.store import ZooKeeperStore

_ASK_WITHIN_S: Final = 2.0
# The one of the engine's words of four letters that every server answers as shipped.
_WORD: Final = b"srvr"
_ANSWER_MAX_BYTES: Final = 64 * 1024
_VERSION: Final = re.compile(r"Zookeeper version: ([0-9][0-9.]*)")
_MODE: Final = re.compile(r"^Mode: (\S+)", re.MULTILINE)
_WAITING: Final = "not currently serving requests"
_UNWANTED: Final = "is not executed because it is not in the whitelist"
_VOTER: Final = re.compile(rb"^server\.\d+=.*:participant", re.MULTILINE)
_SETTINGS_NODE: Final = "/zookeeper/config"
_SESSION_MS: Final = 1  # The ensemble makes of this the shortest that it gives.


class Server(NamedTuple):
    """What one server says of itself."""

    version: str = ""  # empty: not told
    mode: str = ""  # leader, follower, observer, standalone or waiting (for a quorum); empty: not told
    silence: str | None = None  # why it does not answer


async def examine(store: "ZooKeeperStore", settings: Settings, ttl_ns: int) -> list[Finding]:
    """Examine the ensemble of a store that is not open, and that will not be opened again."""
    answers = await asyncio.gather(*(_ask(endpoint, settings) for endpoint in settings.endpoints))
    servers = dict(zip(settings.endpoints, answers, strict=True))
    answering = [endpoint for endpoint, server in servers.items() if server.silence is None]
    asked = {endpoint: server.silence for endpoint, server in servers.items()}
    found = [*_apart(servers), *await _encryption(settings, answering)]
    try:
        async with store:
            members = await part("members", _members(settings, asked))
            return [*members, *found, *await _together(store, settings, ttl_ns), *promises(store.traits)]
    except StoreError as error:
        if not answering:
            raise
        refused = isinstance(error, Refused)
        return [judge_members(asked), *found, bad("office", error.detail) if refused else undecided(error.detail)]


async def _ask(endpoint: str, settings: Settings) -> Server:
    """Ask one server how it is. That needs no rights and no session, so it is answered without a quorum as well."""
    host, _, port = endpoint.rpartition(":")
    try:
        async with asyncio.timeout(_ASK_WITHIN_S):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=settings.tls)
            try:
                writer.write(_WORD)
                answer = await _read_all(reader)
            finally:
                writer.transport.abort()
    except OSError as error:  # which a TimeoutError is, too
        return Server(silence=why_not(error))
    return read_server(answer.decode("utf-8", "replace"))


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    answer = b""
    while len(answer) < _ANSWER_MAX_BYTES and (more := await reader.read(_ANSWER_MAX_BYTES)):
        answer += more
    return answer


def read_server(answer: str) -> Server:
    """Read what a server says of itself."""
    version, mode = _VERSION.search(answer), _MODE.search(answer)
    if _WAITING in answer:
        return Server(mode="waiting")
    if version is None and _UNWANTED not in answer:
        return Server(silence="it is no ZooKeeper: check host and port")
    return Server(version[1] if version else "", mode[1] if mode else "")


def _apart(servers: Mapping[str, Server]) -> Iterable[Finding]:
    """Judge what each server said by itself."""
    versions = {endpoint: server.version for endpoint, server in servers.items() if server.version}
    if versions:
        yield judge_versions(versions, {})
    yield judge_modes({endpoint: server.mode for endpoint, server in servers.items() if server.silence is None})


def judge_modes(modes: Mapping[str, str]) -> Finding:
    """Judge who leads the ensemble by what each server that answers says it is."""
    leaders = sorted(endpoint for endpoint, mode in modes.items() if mode in ("leader", "standalone"))
    if len(leaders) > 1:
        return warning("leader", f"{' and '.join(leaders)} each say so", "ask again: if they still do, see their logs")
    if leaders:
        return good("leader", leaders[0])
    if set(modes.values()) == {"waiting"}:
        return bad("leader", "no server knows of one", "start servers until more than half of them run")
    if any(modes.values()):
        return good("leader", "a server that does not answer, or that the URL does not name")
    return good("leader", "not told: srvr is not in 4lw.commands.whitelist")


async def _encryption(settings: Settings, endpoints: Sequence[str]) -> list[Finding]:
    if settings.tls is None:
        return [judge_plain(endpoint.rpartition(":")[0] for endpoint in endpoints)]
    return await look_at_certificates(endpoints, settings.tls)


async def _members(settings: Settings, asked: Mapping[str, str | None]) -> list[Finding]:
    session = Session(settings, _SESSION_MS, BootClock(), patience_s=_ASK_WITHIN_S)
    with told(settings.address, "read the settings"):
        await session.open()
        try:
            text, _ = await session.ask(get_data(_SETTINGS_NODE))
        except Fault as fault:
            if fault.code not in {Code.NO_AUTH, Code.NO_NODE}:
                raise
            return [judge_members(asked), good("quorum", "how many decide is not told: its settings may not be read")]
        finally:
            await session.close()
    voter_count = len(_VOTER.findall(text)) or 1  # A server that is alone has no list.
    return [judge_members(asked, voter_count), judge_quorum(voter_count)]


async def _together(store: "ZooKeeperStore", settings: Settings, ttl_ns: int) -> list[Finding]:
    """Examine what takes more than one server."""
    election = trial_name()
    found = await try_election(store, election, ttl_ns)
    return found + await part("clock", _clear_away(settings, f"{settings.chroot}/{election}"))


async def _clear_away(settings: Settings, path: str) -> list[Finding]:
    """Delete the node of an election that was held for a trial. When it was last written is by the engine's clock."""
    session = Session(settings, _SESSION_MS, BootClock(), patience_s=_ASK_WITHIN_S)
    with told(settings.address, "clear away"):
        await session.open()
        try:
            before_s = time.time()
            written = await session.ask(set_data(path, b""))
            after_s = time.time()
            await session.ask(delete(path))
        except Fault as fault:
            if fault.code != Code.NO_NODE:
                raise
            return [good("clock", "not told by the engine, and no lease depends on it")]
        finally:
            await session.close()
    return [judge_clock(written.mtime_ms / 1000 - (before_s + after_s) / 2)]

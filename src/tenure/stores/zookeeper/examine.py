"""The examination of a ZooKeeper ensemble: each server by itself, then what they decide together."""

import asyncio
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
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
from tenure.stores.measuring import MEMBER_WITHIN_S, look_at_certificates, part, trial_name, try_election

if TYPE_CHECKING:
    from tenure.stores.zookeeper.store import ZooKeeperStore

# The one of the engine's words of four letters that every server answers as shipped; and one that some do.
_WORD, _SETTINGS_WORD = b"srvr", b"conf"
_ANSWER_MAX_BYTES: Final = 64 * 1024
_VERSION: Final = re.compile(r"Zookeeper version: ([0-9][0-9.]*)")
_TICK: Final = re.compile(r"^tickTime=(\d+)", re.MULTILINE)
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
            ticks_ms = await _ticks_ms(settings, answering)
            # The shortest ttl is a tick, as far as the store knows.
            found += judge_tick(ticks_ms, store.traits.ttl_min_ns // 10**6)
            return [*members, *found, *await _together(store, settings, ttl_ns), *promises(store.traits)]
    except StoreError as error:
        if not answering:
            raise
        refused = isinstance(error, Refused)
        return [judge_members(asked), *found, bad("office", error.detail) if refused else undecided(error.detail)]


async def members_of(settings: Settings) -> dict[str, str | None]:
    """Return why each server that the URL names does not answer; None: it does."""
    answers = await asyncio.gather(*(_ask(endpoint, settings) for endpoint in settings.endpoints))
    return {endpoint: server.silence for endpoint, server in zip(settings.endpoints, answers, strict=True)}


async def _ask(endpoint: str, settings: Settings) -> Server:
    """Ask one server how it is. That needs no rights and no session, so it is answered without a quorum as well."""
    try:
        return read_server(await _say(endpoint, settings, _WORD))
    except (OSError, UnicodeError) as error:  # A TimeoutError is one, too.
        return Server(silence=why_not(error))


async def _ticks_ms(settings: Settings, endpoints: Sequence[str]) -> dict[str, int]:
    """Return the tick of each server that tells its settings."""
    ticks_ms: dict[str, int] = {}
    for endpoint in endpoints:
        with suppress(OSError):
            tick = _TICK.search(await _say(endpoint, settings, _SETTINGS_WORD))
            if tick is not None:
                ticks_ms[endpoint] = int(tick[1])
    return ticks_ms


def judge_tick(ticks_ms: Mapping[str, int], assumed_ms: int) -> list[Finding]:
    """Judge the tick that was worked out from the bounds of a session. It is too short if both were set by hand."""
    longest_ms = max(ticks_ms.values(), default=0)
    if longest_ms <= assumed_ms:
        return []
    detail = (
        f"tickTime is {longest_ms} ms there, and tenure counts with {assumed_ms} ms: a leader might be told too late"
    )
    return [warning("tick", detail, f"add tick={longest_ms / 1000:g} to the URL of every candidate")]


async def _say(endpoint: str, settings: Settings, word: bytes) -> str:
    host, _, port = endpoint.rpartition(":")
    async with asyncio.timeout(MEMBER_WITHIN_S):
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=settings.tls)
        try:
            writer.write(word)
            return (await _read_all(reader)).decode("utf-8", "replace")
        finally:
            writer.transport.abort()


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
    session = Session(settings, _SESSION_MS, BootClock(), patience_s=MEMBER_WITHIN_S)
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
    voter_count = read_voter_count(text)
    return [judge_members(asked, voter_count), judge_quorum(voter_count)]


def read_voter_count(settings: bytes) -> int:
    """Read how many servers of an ensemble decide: an observer follows what the others have decided."""
    return len(_VOTER.findall(settings)) or 1  # A server that is alone has no list.


async def _together(store: "ZooKeeperStore", settings: Settings, ttl_ns: int) -> list[Finding]:
    """Examine what takes more than one server."""
    election = trial_name()
    found = await try_election(store, election, ttl_ns)
    return found + await part("clock", _clear_away(settings, f"{settings.chroot}/{election}"))


async def _clear_away(settings: Settings, path: str) -> list[Finding]:
    """Delete the node of an election that was held for a trial. When it was last written is by the engine's clock."""
    session = Session(settings, _SESSION_MS, BootClock(), patience_s=MEMBER_WITHIN_S)
    with told(settings.address, "clear away"):
        await session.open()
        try:
            before_s = time.time()
            written = await session.ask(set_data(path, b""))
            after_s = time.time()
            found = [judge_clock(written.mtime_ms / 1000 - (before_s + after_s) / 2)]
            return found + await _delete(session, path)
        except Fault as fault:
            if fault.code != Code.NO_NODE:
                raise
            return [good("clock", "not told by the engine, and no lease depends on it")]
        finally:
            await session.close()


async def _delete(session: Session, path: str) -> list[Finding]:
    try:
        await session.ask(delete(path))
    except Fault as fault:
        if fault.code != Code.NO_AUTH:
            raise
        # It takes the right to delete below the node above, which no election needs.
        return [
            warning("trial", f"the node {path} of the trial election stays: we may not delete it", "delete it by hand")
        ]
    return []

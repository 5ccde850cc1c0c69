"""The examination of Redis: the server that decides, or each of several; then an election held there."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tenure.clients.redis import RedisClient
from tenure.errors import Refused, StoreError
from tenure.stores.examining import Finding, good, warning
from tenure.stores.judging import judge_members, judge_plain, judge_quorum, judge_versions, promises
from tenure.stores.measuring import MEMBER_WITHIN_S, look_at_certificates, part, trial_name, try_election
from tenure.stores.redis.judging import Server, info_in, judge_eviction, judge_persistence, judge_replicas
from tenure.stores.redis.records import Keys, items, text_in

if TYPE_CHECKING:
    from tenure.stores.base import Store
    from tenure.stores.redis.redlock import RedlockStore
    from tenure.stores.redis.store import RedisStore

_SETTINGS: Final = ("appendfsync", "min-replicas-to-write")


async def examine(store: "RedisStore", client: RedisClient, ttl_ns: int) -> list[Finding]:
    """Examine the Redis of a store that is not open, and that will not be opened again."""
    async with store:
        assert client.about is not None, "opened without a greeting"
        where, server = client.about.endpoint, await _told(client)
        found = await _sentinels(client)
        found += [
            good("primary", where),
            judge_versions({where: client.about.version}, {}),
            judge_replicas(server),
            judge_persistence(where, server),
            judge_eviction(where, server),
            *await _encryption(client, [where]),
            *await part("messages", _messages(client, store.keys)),
        ]
        found += await _trial(store, [client], ttl_ns)
        return [*found, *promises(store.traits)]


async def examine_each(store: "RedlockStore", nodes: Sequence[RedisClient], ttl_ns: int) -> list[Finding]:
    """Examine the servers of a Redlock that is not open, and that will not be opened again."""
    async with store:
        told = dict(zip((_where(node) for node in nodes), await asyncio.gather(*map(_told, nodes)), strict=True))
        silent = {where: server.untold or None for where, server in told.items()}
        answering = {where: server for where, server in told.items() if not server.untold}
        versions = {_where(node): node.about.version for node in nodes if node.about is not None}
        found = [
            judge_members(silent),
            judge_quorum(len(nodes)),
            judge_versions(versions, {}),
            *(judge_persistence(where, server) for where, server in answering.items()),
            *(judge_eviction(where, server) for where, server in answering.items()),
            *await _encryption(nodes[0], list(answering)),
        ]
        found += await _trial(store, nodes, ttl_ns)
        return [*found, *promises(store.traits)]


def _where(node: RedisClient) -> str:
    return node.settings.endpoints[0]


async def _told(client: RedisClient) -> Server:
    """Ask a server for what it tells; whoever may not ask is told nothing, which is no fault."""
    try:
        info = info_in(text_in(await client.call("INFO", operation="examine", within_s=MEMBER_WITHIN_S)))
    except Refused:
        return Server({})
    except StoreError as error:
        return Server({}, untold=error.detail)
    settings: dict[str, str] = {}
    for name in _SETTINGS:
        with suppress(StoreError):
            pair = items(await client.call("CONFIG", "GET", name, operation="examine"))
            settings |= dict([(text_in(pair[0]), text_in(pair[1]))] if pair else [])
    return Server(info, settings)


async def _sentinels(client: RedisClient) -> list[Finding]:
    """Ask each Sentinel by itself where the primary is."""
    settings = client.settings
    if not settings.service:
        return []
    asked: dict[str, str | None] = {}
    places: dict[str, str] = {}
    for endpoint in settings.endpoints:
        one = RedisClient(replace(settings, endpoints=(endpoint,)))
        try:
            async with one:
                asked[endpoint] = None
                places[endpoint] = one.about.endpoint if one.about is not None else ""
        except StoreError as error:
            asked[endpoint] = error.detail
    return [judge_members(asked), *_agreed(places)]


def _agreed(places: Mapping[str, str]) -> list[Finding]:
    if len(set(places.values())) < 2:  # noqa: PLR2004
        return []
    apart = ", ".join(f"{endpoint} says {place}" for endpoint, place in sorted(places.items()))
    return [warning("sentinels", apart, "ask again: if they still disagree, they are cut off from each other")]


async def _encryption(client: RedisClient, endpoints: Sequence[str]) -> list[Finding]:
    tls = client.settings.tls
    if tls is None:
        return [judge_plain(endpoint.rpartition(":")[0] for endpoint in endpoints)]
    return await look_at_certificates(list(endpoints), tls)


async def _messages(client: RedisClient, keys: Keys) -> list[Finding]:
    """Find out whether we may listen: whoever may not waits for as long as a poll takes."""
    link = await client.subscribe(lambda _: None)
    try:
        reply = await link.ask("SUBSCRIBE", keys.channel(trial_name()))
    finally:
        link.end("examined")
    if isinstance(reply, list):
        return [good("messages", "a standby is told of a release at once")]
    advice = f"give the user +subscribe and &{keys.prefix}:*"
    return [warning("messages", f"a standby only looks now and then: {reply!r}", advice)]


async def _trial(store: "Store", nodes: Sequence[RedisClient], ttl_ns: int) -> list[Finding]:
    name = trial_name()
    found = await try_election(store, name, ttl_ns)
    keys = Keys(nodes[0].settings.prefix, nodes[0].settings.db)
    for node in nodes:
        with suppress(StoreError):  # Else one name is left, which says that it was a trial.
            await node.call("SREM", keys.elections, name, operation="clear away")
    return found

"""The name that several servers have together, by which fences are named.

It is made once, by whoever comes first. Two that came first at once would make two, so the servers are asked in one order: the
first one decides which it is, and the others are told. That takes all of them; afterwards a majority is enough.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Sequence

from tenure.clients.redis import RedisClient
from tenure.errors import Refused, StoreError, Unreachable
from tenure.stores.redis import scripts
from tenure.stores.redis.records import name_in
from tenure.stores.redis.voting import majority_of


async def agreed_name(nodes: Sequence[RedisClient], key: str, address: str) -> str:
    """Open every server that answers, and return the name that a majority of them has. Raises StoreError if there is none."""
    told = await asyncio.gather(*(_name_at(node, key) for node in nodes))
    errors = [each for each in told if isinstance(each, StoreError)]
    if len(errors) > len(nodes) - majority_of(len(nodes)):
        refused = [error for error in errors if isinstance(error, Refused)]
        detail = "; ".join(error.detail for error in refused or errors)
        raise Refused(address, "open", detail) if refused else Unreachable(address, "open", detail)
    counted = Counter(each for each in told if isinstance(each, str) and each)
    for name, count in counted.most_common(1):
        if count >= majority_of(len(nodes)):
            return name
    if len(counted) > 1:
        rule = f"the servers belong to different sets: they have {len(counted)} names in {key}; delete it while nobody leads"
        raise Refused(address, "open", rule)
    if errors:
        rule = f"the first time all {len(nodes)} servers must answer: {'; '.join(error.detail for error in errors)}"
        raise Unreachable(address, "open", rule)
    return await _made(nodes, key, address, next(iter(counted), "") or secrets.token_hex(8))


async def _name_at(node: RedisClient, key: str) -> str | StoreError:
    try:
        await node.__aenter__()
        found = await node.call("GET", key, operation="open")
        return name_in(found, key, node.address) if found is not None else ""
    except StoreError as error:
        return error


async def _made(nodes: Sequence[RedisClient], key: str, address: str, proposed: str) -> str:
    first, *others = sorted(nodes, key=lambda node: node.settings.endpoints)
    name = name_in(await first.run(scripts.NAME, [key], [proposed], operation="open"), key, address)
    told = await asyncio.gather(*(node.run(scripts.NAME, [key], [name], operation="open") for node in others))
    if any(name_in(each, key, address) != name for each in told):
        rule = f"the servers belong to different sets: see what each has in {key}, and delete it while nobody leads"
        raise Refused(address, "open", rule)
    return name

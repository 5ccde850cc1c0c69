"""What can be learnt of elections, and said to their leaders, by one who does not stand."""

import asyncio
from dataclasses import replace
from typing import Final

from tenure.clients.consul.client import ConsulClient
from tenure.clients.consul.failures import Conflict
from tenure.clients.consul.messages import Pair, put_if_unchanged
from tenure.errors import OutcomeUnknown, Refused
from tenure.model import Incumbent
from tenure.stores.base import ElectionStatus
from tenure.stores.consul.agent import IDENTITY
from tenure.stores.consul.layout import LOCK, LOCK_FLAG, entry_in, incumbent_of, token_in

# So many are read; and so many at once, each on a connection of its own.
_LISTED_MAX: Final = 20_000
_AT_ONCE: Final = 16
_TRIES_MAX: Final = 4


async def list_elections(client: ConsulClient) -> list[ElectionStatus]:
    """Return every election that was ever held below the prefix. Who waits for one, the engine does not know."""
    prefix = client.settings.prefix
    keys = [key for key in await client.keys(prefix, operation="elections") if key.endswith(LOCK)]
    if not keys:  # What we may not see is left out of the answer: make sure that there is something that we may.
        await client.get(f"{prefix}{IDENTITY}", operation="elections")
    if len(keys) > _LISTED_MAX:
        rule = (
            f"there are more than {_LISTED_MAX} locks: name the election, or put what its name begins with into the URL"
        )
        raise Refused(client.address, "elections", rule)
    pairs: list[Pair | None] = []
    for first in range(0, len(keys), _AT_ONCE):
        some = keys[first : first + _AT_ONCE]
        pairs += await asyncio.gather(*(client.get(key, operation="elections") for key in some))
    locks = [pair for pair in pairs if pair is not None and pair.flags == LOCK_FLAG]
    return [_status(pair, pair.key.removeprefix(prefix).removesuffix(LOCK)) for pair in locks]


def _status(pair: Pair, election: str) -> ElectionStatus:
    incumbent = incumbent_of(election, pair)
    asked = incumbent is not None and entry_in(pair).resign_asked
    return ElectionStatus(election, incumbent, None, None, asked, ())


async def leave_a_word(client: ConsulClient, key: str, election: str) -> Incumbent | None:
    """Write into the leader's own key that it is asked to leave; it reads that when it renews."""
    for _ in range(_TRIES_MAX):
        pair = await client.get(key, operation="ask to resign")
        incumbent = incumbent_of(election, pair)
        if pair is None or incumbent is None:
            return None
        entry = entry_in(pair)
        if entry.serial is None:
            rule = f"{election} is led by session {pair.session}, which is no tenure program's and would not hear it"
            raise Refused(client.address, "ask to resign", rule)
        word = replace(entry.asked_to_resign(), token=token_in(pair)).encode()
        try:
            await client.txn([put_if_unchanged(key, word, LOCK_FLAG, pair.modify_index)], operation="ask to resign")
        except Conflict:
            continue
        return incumbent
    raise OutcomeUnknown(client.address, "ask to resign", "the leader changed with every try")

"""What must be known of a Consul before anybody stands: that it decides, how short sessions may be, and its name."""

import asyncio
from contextlib import suppress
from secrets import token_hex
from typing import Final

from tenure.clients.consul.client import ConsulClient
from tenure.clients.consul.failures import NO_LEADER, Conflict, NoSessionThere, NotAllowed, TtlRefused
from tenure.clients.consul.messages import put_if_unchanged
from tenure.errors import OutcomeUnknown, Refused, StoreError, Unreachable
from tenure.stores.base import Expiry, Traits, Wake

IDENTITY: Final = ".tenure-identity"
# As shipped: session_ttl_min, and the lock-delay of a session that does not say otherwise.
_SHORTEST_NS: Final = 10 * 10**9
LOCK_DELAY_NS: Final = 15 * 10**9
# With a fence nothing has to be waited for: what the last holder still sends is refused where it arrives.
FENCED_LOCK_DELAY_NS: Final = 0
_LONGEST_NS: Final = 24 * 3600 * 10**9
_IMPOSSIBLE_NS: Final = 10**6
# The engine ends a session twice its ttl after it was renewed, writes that down, and the next one hears of it; after a
# lock-delay that it could not guess the next one asks twice a second. Not counted in: an engine that gets a new leader counts
# every session anew.
_LATE_NS: Final = 10**9
_MEET_WITHIN_S: Final = 5.0
_PAUSE_S: Final = 0.5


async def met(client: ConsulClient) -> tuple[int | None, "str | Refused"]:
    """Return the shortest session and the name of a Consul that decides; in place of its name, why we may not know it.

    Between two leaders nothing is decided for a second or two.
    """
    no_leader = Unreachable(client.address, "open", f"Consul has no leader: {NO_LEADER}")
    loop = asyncio.get_running_loop()
    ends_at_s = loop.time() + _MEET_WITHIN_S
    while True:
        trouble: StoreError = no_leader
        try:
            if await client.leader():
                return await _shortest_session_ns(client), await _identity_or_refusal(client)
        except OutcomeUnknown as error:
            trouble = error
        if loop.time() > ends_at_s:
            raise trouble
        await asyncio.sleep(_PAUSE_S)


async def _identity_or_refusal(client: ConsulClient) -> "str | Refused":
    try:
        return await identity_of(client)
    except NotAllowed as refused:  # Whoever only looks needs none.
        return refused


async def _shortest_session_ns(client: ConsulClient) -> int | None:
    """Return the shortest ttl that a session may have: what the engine says to an impossible one. None: not to us."""
    try:
        await client.create_session("an impossible one", _IMPOSSIBLE_NS, 0)
    except TtlRefused as refused:
        return refused.least_ns
    except (NotAllowed, NoSessionThere):  # Whoever only looks needs no session, nor the right to make one.
        return None
    return _IMPOSSIBLE_NS  # It was possible.


async def identity_of(client: ConsulClient) -> str:
    """Return the name of what is below the prefix, which whoever comes first makes up. Raises Refused."""
    key = f"{client.settings.prefix}{IDENTITY}"
    try:
        pair = await client.get(key, operation="identity")
        if pair is None:
            with suppress(Conflict):  # Somebody was quicker.
                await client.txn([put_if_unchanged(key, token_hex(8).encode(), 0, 0)], operation="identity")
            pair = await client.get(key, operation="identity")
    except NotAllowed as error:
        rule = f"{error.detail} (the key {key} must be read, and written once, to give fences their name)"
        raise NotAllowed(client.address, "identity", rule) from error
    if pair is None:
        raise Refused(client.address, "identity", f"somebody deletes the key {key}, by which fences get their name")
    return pair.value.decode("ascii", "replace")


def lock_delay_ns(given_ns: int | None, *, fenced: bool) -> int:
    """Return for how long the engine keeps a key empty whose session was ended by somebody else."""
    if given_ns is not None:
        return given_ns
    return FENCED_LOCK_DELAY_NS if fenced else LOCK_DELAY_NS


def traits_of(shortest_ns: int | None, delay_ns: int | None) -> Traits:
    """Return what Consul promises. Of the two lock-delays that may apply, the longer one is told."""
    return Traits(
        queue=False,
        wake=Wake.LONG_POLL,
        expiry=Expiry.ENGINE,
        token_source="the index (ModifyIndex) of the write that took the lock",
        ttl_min_ns=_SHORTEST_NS if shortest_ns is None else shortest_ns,
        ttl_max_ns=_LONGEST_NS,
        expiry_slack_ns=lock_delay_ns(delay_ns, fenced=False) + _LATE_NS,
        expiry_slack_ttls=1,
    )

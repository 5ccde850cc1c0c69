"""The examination of Consul: each agent in the URL by itself, then what the servers decide together."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from tenure.clients.consul.client import ConsulClient
from tenure.clients.consul.failures import Conflict
from tenure.errors import Refused, StoreError, Unreachable
from tenure.stores.consul.agent import FENCED_LOCK_DELAY_NS, LOCK_DELAY_NS
from tenure.stores.consul.layout import LOCK
from tenure.stores.examining import Finding, good
from tenure.stores.judging import (
    judge_clock,
    judge_leaders,
    judge_members,
    judge_minimum,
    judge_plain,
    judge_quorum,
    judge_versions,
    promises,
    undecided,
)
from tenure.stores.measuring import look_at_certificates, part, trial_name, try_election

if TYPE_CHECKING:
    from tenure.stores.consul.store import ConsulStore

_HALF_A_SECOND: Final = 0.5  # The time of day of an answer has no fractions.


class Agent(NamedTuple):
    """What one agent says of itself."""

    leader: str = ""
    version: str = ""  # empty: not told
    ahead_s: float | None = None  # how far its clock is ahead of ours; None: not told
    silence: StoreError | None = None  # why it does not answer


async def examine(store: "ConsulStore", client: ConsulClient, ttl_ns: int) -> list[Finding]:
    """Examine the Consul of a store that is not open, and that will not be opened again."""
    endpoints = client.settings.endpoints
    agents = dict(
        zip(endpoints, await asyncio.gather(*(_ask(client, endpoint) for endpoint in endpoints)), strict=True)
    )
    answering = {endpoint: agent for endpoint, agent in agents.items() if agent.silence is None}
    if not answering:
        raise _nobody_answers(client.address, agents)
    asked = {endpoint: agent.silence.detail if agent.silence else None for endpoint, agent in agents.items()}
    found = [
        judge_members(asked),
        judge_leaders({endpoint: agent.leader for endpoint, agent in answering.items()}),
        *_apart(answering),
        *await _encryption(client, answering),
    ]
    try:
        async with store:
            return [*found, *await _together(store, client, ttl_ns), *promises(store.traits)]
    except StoreError as error:
        return [*found, undecided(error.detail)]


async def _ask(client: ConsulClient, endpoint: str) -> Agent:
    """Ask one agent by itself."""
    try:
        async with ConsulClient(replace(client.settings, endpoints=(endpoint,))) as one:
            leader = await one.leader()
            try:
                version, date = await one.version()
            except Refused:  # That takes a right of its own, which elections do not need.
                return Agent(leader)
            return Agent(leader, version, _ahead_s(date))
    except StoreError as error:
        return Agent(silence=error)


def _ahead_s(date: str) -> float | None:
    with suppress(ValueError):
        return parsedate_to_datetime(date).timestamp() + _HALF_A_SECOND - time.time()
    return None


def _apart(answering: Mapping[str, Agent]) -> list[Finding]:
    versions = {endpoint: agent.version for endpoint, agent in answering.items() if agent.version}
    found = [judge_versions(versions, {})] if versions else [good("version", "not told: that takes agent:read")]
    clocks = [agent.ahead_s for agent in answering.values() if agent.ahead_s is not None]
    return [
        *found,
        judge_clock(max(clocks, key=abs)) if clocks else good("clock", "not told, and no lease depends on it"),
    ]


async def _encryption(client: ConsulClient, answering: Mapping[str, Agent]) -> list[Finding]:
    tls = client.settings.tls
    if tls is None:
        return [judge_plain(endpoint.rpartition(":")[0] for endpoint in answering)]
    return await look_at_certificates(list(answering), tls)


async def _together(store: "ConsulStore", client: ConsulClient, ttl_ns: int) -> list[Finding]:
    """Examine what takes more than one server."""
    name = trial_name()
    found = await part("quorum", _quorum(client))
    found += await try_election(store, name, ttl_ns)
    found += [judge_minimum(store.traits.ttl_min_ns, ttl_ns), judge_lock_delay(client.settings.lock_delay_ns)]
    with suppress(StoreError, Conflict):  # Else one key is left, which says that it was a trial.
        await client.delete(f"{client.settings.prefix}{name}{LOCK}", operation="clear away")
    return found


async def _quorum(client: ConsulClient) -> list[Finding]:
    return [judge_quorum(len(await client.peers()))]


def judge_lock_delay(given_ns: int | None) -> Finding:
    """Say for how long an office stays empty whose session was ended by somebody else than its holder."""
    if given_ns is not None:
        return good("lock-delay", f"{given_ns / 1e9:g} s, as lock_delay= says")
    told = f"{LOCK_DELAY_NS / 1e9:g} s, and {FENCED_LOCK_DELAY_NS / 1e9:g} s for elections with sinks"
    return good("lock-delay", f"{told}; lock_delay= sets it")


def _nobody_answers(address: str, agents: Mapping[str, Agent]) -> StoreError:
    """Return one error for what all agents said. One that refused us has said more than one that was not reached."""
    errors = [agent.silence for agent in agents.values() if agent.silence is not None]
    refusals = [error for error in errors if isinstance(error, Refused)]
    return refusals[0] if refusals else Unreachable(address, "open", "; ".join(error.detail for error in errors))

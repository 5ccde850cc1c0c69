"""The examination of Consul: each agent in the URL by itself, then what the servers decide together."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from tenure.clients.consul.client import AT_ONCE, ConsulClient
from tenure.clients.consul.failures import Conflict, span_ns
from tenure.clients.consul.messages import About
from tenure.errors import Refused, StoreError, Unreachable
from tenure.stores.consul.agent import FENCED_LOCK_DELAY_NS, LOCK_DELAY_NS
from tenure.stores.consul.layout import LOCK
from tenure.stores.consul.waits import OPEN_MAX
from tenure.stores.examining import Finding, good, warning
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
from tenure.stores.measuring import MEMBER_WITHIN_S, look_at_certificates, part, trial_name, try_election

if TYPE_CHECKING:
    from tenure.stores.consul.store import ConsulStore

_HALF_A_SECOND: Final = 0.5  # The time of day of an answer has no fractions.


# So long must a ttl be for a tenure to outlive the leader among the servers: two of these may pass until one of them stands,
# one more until it is elected, and the holder must be heard after that, with what is left of a ttl just before a renewal: three
# fifths, without what it keeps to stop in. Seen: with 5 s it took up to 10.4 s, and with 1 s up to 2.7 s.
_ELECTIONS_PER_TTL: Final = 6


class Agent(NamedTuple):
    """What one agent says of itself."""

    leader: str = ""
    about: About | None = None  # None: not told
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
        *_apart(answering, ttl_ns),
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
        settings = replace(client.settings, endpoints=(endpoint,), timeout_s=MEMBER_WITHIN_S)
        async with ConsulClient(settings) as one:
            leader = await one.leader()
            try:
                about = await one.about()
            except Refused:  # That takes a right of its own, which elections do not need.
                return Agent(leader)
            return Agent(leader, about, _ahead_s(about.date))
    except StoreError as error:
        return Agent(silence=error)


def _ahead_s(date: str) -> float | None:
    with suppress(ValueError):
        return parsedate_to_datetime(date).timestamp() + _HALF_A_SECOND - time.time()
    return None


def _apart(answering: Mapping[str, Agent], ttl_ns: int) -> list[Finding]:
    abouts = {endpoint: agent.about for endpoint, agent in answering.items() if agent.about is not None}
    versions = {endpoint: about.version for endpoint, about in abouts.items()}
    found = [judge_versions(versions, {})] if versions else [good("version", "not told: that takes agent:read")]
    clocks = [agent.ahead_s for agent in answering.values() if agent.ahead_s is not None]
    return [
        *found,
        judge_clock(max(clocks, key=abs)) if clocks else good("clock", "not told, and no lease depends on it"),
        judge_connections(
            min((about.connections_max for about in abouts.values() if about.connections_max), default=0)
        ),
        *judge_failover([about.election_timeout for about in abouts.values() if about.is_server], ttl_ns),
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


def judge_connections(most: int) -> Finding:
    """Say what waiting costs, and whether an agent that takes ``most`` connections from one address has room; 0: not told."""
    told = f"an agent takes {most or 200} connections from one address{'' if most else ', as shipped'}"
    uses = (
        f"a process keeps one for each election that it waits for, up to {OPEN_MAX}, and asks now and then beyond that"
    )
    if 0 < most < OPEN_MAX + AT_ONCE:
        return warning("connections", f"{told}; {uses}", "raise limits { http_max_conns_per_client } of the agent")
    return good("connections", f"{told}; {uses}")


def judge_failover(timeouts: Iterable[str], ttl_ns: int) -> list[Finding]:
    """Say whether a tenure outlives the death of the leader among the servers, as far as the servers tell."""
    timeout_ns = max((span_ns(timeout) for timeout in timeouts), default=0)
    if ttl_ns >= _ELECTIONS_PER_TTL * timeout_ns:
        return []
    detail = f"the servers notice after {timeout_ns / 1e9:g} s that their leader is gone: a ttl of {ttl_ns / 1e9:g} s may end first"
    least_s = _ELECTIONS_PER_TTL * timeout_ns / 1e9
    advice = f"set performance {{ raft_multiplier = 1 }} on the servers, or use a ttl of {least_s:g} s or more"
    return [warning("failover", detail, advice)]


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

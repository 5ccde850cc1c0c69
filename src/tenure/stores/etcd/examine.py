"""The examination of an etcd cluster: each member by itself, then what they decide together."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.messages import Seen, Status
from tenure.errors import Refused, StoreError, Unreachable
from tenure.stores.examining import Finding, Level, bad, good, warning
from tenure.stores.judging import (
    judge_latency,
    judge_leaders,
    judge_members,
    judge_minimum,
    judge_plain,
    judge_quorum,
    judge_versions,
    promises,
    undecided,
)
from tenure.stores.measuring import MEMBER_WITHIN_S, look_at_certificates, median_ns, part, trial_name, try_election

if TYPE_CHECKING:
    from tenure.stores.etcd.store import EtcdStore

# github.com/etcd-io/etcd/issues/13766
_LOSES_WRITES: Final = "upgrade to 3.5.3 or newer: a member that is killed under load may lose what was committed"
# github.com/etcd-io/etcd/issues/15247
_REVOKES: Final = (
    "upgrade to 3.4.31, 3.5.13 or newer: a leader that stalls may end the leases of others that still live"
)
BROKEN: Final = {
    **{f"3.4.{patch}": _REVOKES for patch in range(31)},
    **{f"3.5.{patch}": _LOSES_WRITES if patch < 3 else _REVOKES for patch in range(13)},  # noqa: PLR2004
}
_ALARMS: Final = {
    "NOSPACE": "its database is full, so nobody can take office: compact and defragment it, then etcdctl alarm disarm",
    "CORRUPT": "its members disagree on their data: replace the one that is wrong, then etcdctl alarm disarm",
}
# As shipped. Which quota a cluster has is not told before etcd 3.6.
_QUOTA_BYTES: Final = 2 * 2**30
_FULL: Final = 0.8
_SHORTEST_S: Final = 1


async def examine(store: "EtcdStore", client: EtcdClient, ttl_ns: int) -> list[Finding]:
    """Examine the cluster of a store that is not open, and that will not be opened again."""
    seen = await client.seen_at_each(MEMBER_WITHIN_S)
    statuses = {endpoint: one.status for endpoint, one in seen.items() if isinstance(one, Seen)}
    if not statuses:
        raise _nobody_answers(client.address, [one for one in seen.values() if isinstance(one, StoreError)])
    found = [
        judge_versions({endpoint: status.version for endpoint, status in statuses.items()}, BROKEN),
        judge_space(max(status.db_size_bytes for status in statuses.values())),
        good("clock", "not told by the engine, and no lease depends on it"),
        *await _encryption(client, statuses),
    ]
    asked = {endpoint: one.detail if isinstance(one, StoreError) else None for endpoint, one in seen.items()}
    try:
        async with store:
            found = await part("members", _members(client, statuses, asked)) + found
            return [*found, *await _together(store, client, statuses.values(), ttl_ns), *promises(store.traits)]
    except StoreError as error:
        return [judge_members(asked), *found, undecided(error.detail)]


async def members_of(client: EtcdClient) -> dict[str, str | None]:
    """Return why each member that the URL names does not answer; None: it does."""
    seen = await client.seen_at_each(MEMBER_WITHIN_S)
    return {endpoint: one.detail if isinstance(one, StoreError) else None for endpoint, one in seen.items()}


async def _together(store: "EtcdStore", client: EtcdClient, statuses: Iterable[Status], ttl_ns: int) -> list[Finding]:
    """Examine what takes more than one member."""
    found = await try_election(store, trial_name(), ttl_ns)
    works = found[-1].level is not Level.BAD
    found += await part("alarms", _alarms(client, statuses))
    return found + (await part("lease", _lease(client, ttl_ns)) if works else [])


async def _lease(client: EtcdClient, ttl_ns: int) -> list[Finding]:
    given_s: set[int] = set()

    async def grant_and_revoke() -> None:
        granted = await client.lease_grant(_SHORTEST_S)
        given_s.add(granted.ttl_s)
        await client.lease_revoke(granted.lease)

    latency_ns = await median_ns(grant_and_revoke)
    return [
        judge_latency("to grant and revoke a lease", latency_ns, ttl_ns),
        judge_minimum(max(given_s) * 10**9, ttl_ns),
    ]


async def _members(
    client: EtcdClient, statuses: Mapping[str, Status], asked: Mapping[str, str | None]
) -> list[Finding]:
    try:
        members = await client.members()
    except Refused as error:
        members = []
        found = [judge_members(asked), good("quorum", f"how many decide is not told: {error.detail}")]
    else:
        voter_count = sum(not member.learner for member in members)
        found = [judge_members(asked, len(members)), judge_quorum(voter_count)]
    learners = [member.name or f"{member.member_id:x}" for member in members if member.learner]
    if learners:
        advice = "etcdctl member promote it, once it has caught up, or leave it out of the URL: it serves no election"
        found.append(warning("quorum", f"{', '.join(learners)} is a learner, and has no vote", advice))
    names = {member.member_id: member.name for member in members}
    leaders = {
        endpoint: (names.get(status.leader_id) or f"member {status.leader_id:x}") if status.leader_id else ""
        for endpoint, status in statuses.items()
    }
    return [*found, judge_leaders(leaders)]


async def _alarms(client: EtcdClient, statuses: Iterable[Status]) -> list[Finding]:
    # Not every user may list them; what is raised also stands in the status of a member.
    raised = {kind for status in statuses for told in status.errors for kind in _ALARMS if kind in told}
    try:
        raised |= {alarm.kind for alarm in await client.alarms()}
    except StoreError as error:
        if not raised:
            return [good("alarms", f"none that a member tells of; the cluster was asked in vain: {error.detail}")]
    return judge_alarms(raised)


async def _encryption(client: EtcdClient, statuses: Mapping[str, Status]) -> list[Finding]:
    tls = client._tls  # noqa: SLF001  (a certificate is looked at on a connection of its own, with the same trust)
    if tls is None:
        return [judge_plain(endpoint.rpartition(":")[0] for endpoint in statuses)]
    return await look_at_certificates(list(statuses), tls)


def judge_alarms(raised: Iterable[str]) -> list[Finding]:
    """Judge the alarms that are raised. With any of these, a cluster refuses to write."""
    found = [bad("alarms", kind, _ALARMS.get(kind, "see etcdctl alarm list")) for kind in sorted(raised)]
    return found or [good("alarms", "none")]


def judge_space(size_bytes: int) -> Finding:
    """Judge how large the database of the largest member is."""
    told = f"the database has {size_bytes / 2**20:.1f} MiB"
    if size_bytes > _FULL * _QUOTA_BYTES:
        quota = f"{told}, and etcd takes {_QUOTA_BYTES // 2**30} GiB unless --quota-backend-bytes says more"
        return warning("space", quota, "compact and defragment it, or see that its quota is larger")
    return good("space", told)


def _nobody_answers(address: str, errors: Sequence[StoreError]) -> StoreError:
    """Return one error for what all members said. One that refused us has said more than one that was not reached."""
    refusals = [error for error in errors if isinstance(error, Refused)]
    return refusals[0] if refusals else Unreachable(address, "open", "; ".join(error.detail for error in errors))

"""The Leases of one namespace: read and written, with everything that is seen on the way taken note of."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from tenure.clients.kubernetes import KubernetesClient, NotThere
from tenure.clients.kubernetes.client import Object, part_of
from tenure.errors import Refused
from tenure.model import Holder
from tenure.stores.base import ElectionStatus, Expiry, Traits, Wake
from tenure.stores.kubernetes.lease import DURATION_MAX_S, TRANSITIONS_MAX, Lease, new_lease
from tenure.stores.kubernetes.names import election_of
from tenure.stores.kubernetes.sightings import Sighting, Sightings

# What the doctor's own elections are called. It is not told of as an election, and never deleted: that would take a right
# that nobody needs otherwise.
TRIAL: Final = "tenure-doctor"
_PAGE: Final = "500"


def traits_of(*, by_version: bool) -> Traits:
    """Return what Leases can promise."""
    counted = "the Lease's leaseTransitions, which every tenure raises"
    return Traits(
        queue=False,
        wake=Wake.WATCH,
        expiry=Expiry.OBSERVER,
        token_source="the resourceVersion of the Lease when it was taken" if by_version else counted,
        ttl_min_ns=10**9,
        ttl_max_ns=DURATION_MAX_S * 10**9,
        # A Lease has whole seconds, so a ttl is rounded up; and a change is seen a moment after it was made.
        expiry_slack_ns=10**9,
    )


class Leases:
    """The Leases of one namespace."""

    def __init__(self, client: KubernetesClient, namespace: str, seen: Sightings) -> None:
        self._client, self._namespace, self._seen = client, namespace, seen
        self.path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"

    async def identity(self) -> str:
        """Return what tells this namespace from all others that ever had its name."""
        found = await self._client.get(f"/api/v1/namespaces/{self._namespace}", operation="open")
        uid = part_of(found, "metadata").get("uid")
        if not isinstance(uid, str) or not uid:
            raise self._client.not_understood("open")
        return uid

    async def look(self, name: str, operation: str, within_s: float | None = None) -> Sighting:
        """Read a Lease as the cluster has it."""
        mark = self._seen.mark(name)
        try:
            found = await self._client.get(f"{self.path}/{name}", operation=operation, within_s=within_s)
        except NotThere:
            return self._seen.see(name, None, mark)
        return self._seen.see(name, Lease(self._client.named(found, name, operation)), mark)

    async def write(
        self, name: str, body: Object, *, operation: str, new: bool = False, within_s: float | None = None
    ) -> Lease:
        """Create a Lease, or replace one that still has the version of ``body``. Raises Conflict or NotThere if not."""
        mark = self._seen.mark(name)
        if new:
            written = await self._client.create(self.path, body, operation=operation, within_s=within_s)
        else:
            written = await self._client.replace(f"{self.path}/{name}", body, operation=operation, within_s=within_s)
        lease = Lease(self._client.named(written, name, operation))
        self._seen.see(name, lease, mark)
        return lease

    def base(self, name: str, lease: Lease | None) -> Lease:
        """Return what a new tenure is written over."""
        return new_lease(name, self._namespace) if lease is None else lease

    def next_transitions(self, name: str, lease: Lease | None) -> int:
        """Return the count for a new tenure: above whatever the Lease has, and whatever this process has seen of it."""
        highest = max(self._seen.highest(name), 0 if lease is None else lease.transitions)
        if highest >= TRANSITIONS_MAX:
            detail = (
                f"leaseTransitions of Lease {name} is {highest}, and no tenure can have more than {TRANSITIONS_MAX}: "
                f"set it back by kubectl edit lease {name}, or use another name if some sink has seen that number"
            )
            raise Refused(self._client.address, "claim", detail)
        return highest + 1

    def check_sane(self, name: str, lease: Lease) -> None:
        """Raise Refused for a Lease that would not end in anybody's lifetime."""
        if lease.duration_s > DURATION_MAX_S:
            detail = (
                f"leaseDurationSeconds of Lease {name} is {lease.duration_s}, and more than {DURATION_MAX_S} is nonsense: "
                f"put it right by kubectl edit lease {name}"
            )
            raise Refused(self._client.address, "claim", detail)

    async def all(self, standbys: Mapping[str, Sequence[Holder]], *, by_version: bool) -> list[ElectionStatus]:
        """Return every election of the namespace, by name, with those of ``standbys`` who wait."""
        found: list[ElectionStatus] = []
        params = {"limit": _PAGE}
        while True:
            page = await self._client.get(self.path, operation="elections", params=params)
            items = page.get("items")
            if not isinstance(items, list) and not (items is None and isinstance(page.get("metadata"), dict)):
                raise self._client.not_understood("elections")
            for item in items or []:
                election = election_of(str(part_of(item, "metadata").get("name", "")))
                if election and election != TRIAL:
                    waiting = tuple(standbys.get(election, ()))
                    found.append(_status(election, Lease(item), waiting, by_version=by_version))
            more = part_of(page, "metadata").get("continue")
            if not more:
                return sorted(found, key=lambda status: status.election)
            params["continue"] = str(more)


def _status(election: str, lease: Lease, standbys: tuple[Holder, ...], *, by_version: bool) -> ElectionStatus:
    if not lease.identity:
        return ElectionStatus(election, None, None, None, False, standbys)
    now = datetime.now(UTC)
    acquired, renewed = lease.instant("acquireTime"), lease.instant("renewTime")
    held_for_ns = None if acquired is None else max(0, round((now - acquired).total_seconds() * 1e9))
    remaining_ns = None
    if renewed is not None:
        remaining_ns = max(0, round((lease.duration_s - (now - renewed).total_seconds()) * 1e9))
    incumbent = lease.incumbent(election, by_version=by_version)
    return ElectionStatus(election, incumbent, held_for_ns, remaining_ns, lease.note.resign_asked, standbys)

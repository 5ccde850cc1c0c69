"""What the tests of faults on etcd have in common: candidates that write down what happened to them, and what etcd counted."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self

from tenure.clients.etcd import codec
from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.messages import KeyValue, Range, prefix_end
from tenure.clients.etcd.opening import client_of
from tenure.clients.etcd.wire import put_int
from tenure.election import Election
from tenure.facts.kinds import Left
from tenure.model import Bid, Holder
from tenure.office.opened import OpenStore
from tenure.office.tenure import Tenure
from tenure.sinks.base import Sink
from tenure.stores.etcd.store import EtcdStore
from tenure.testing.engines import EtcdCluster, Node
from tenure.testing.engines.processes import wait_for
from tenure.timing import Timing
from tests.hearing import Hearing

# Patience, not a measure: what is right comes in a few seconds, and what is wrong never comes.
PATIENCE_S = 40.0
LOOK_S = 0.02
TTL_S = 5.0
# For who must outlive an election of the engine's own leader. On a quiet machine five seconds are enough for that, as the
# benchmarks show; on a busy one the engine itself needs longer. It is renewed as often as one of five seconds.
ENDURING = Timing.of(ttl=9, heartbeat=TTL_S / 4, attempt_timeout=2.5)
_RANGE_AT_REVISION = 4  # the number of that field in etcd's RangeRequest
_COUNTED = re.compile(
    r'^(?P<counter>grpc_server_\w+_total)\{grpc_method="(?P<method>\w+)".*\} (?P<count>\S+)$', re.MULTILINE
)


def play(story: Coroutine[Any, Any, None], within_s: float = 100.0) -> None:
    """Run an async test, which must come to its end."""

    async def bounded() -> None:
        async with asyncio.timeout(within_s):
            await story

    asyncio.run(bounded())


async def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition that nothing wakes us for."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110  (what happens in the office's thread, or at the engine, sets no event)
            await asyncio.sleep(LOOK_S)


async def until_so(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition that has to be asked for."""
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110  (likewise)
            await asyncio.sleep(LOOK_S)


def now_ns() -> int:
    """The clock that tenures are dated by."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Candidate:
    """Stands in an election, with a body that never ends, for as long as its block runs."""

    def __init__(
        self,
        store: OpenStore,
        name: str,
        ttl_s: float = TTL_S,
        sinks: tuple[Sink, ...] = (),
        timing: Timing | None = None,
    ) -> None:
        self.election = Election(store, name, timing=timing or Timing.of(ttl=ttl_s))
        self._heard = Hearing(self.election)
        self.term: Tenure | None = None
        self.believed_until = (
            0  # up to when its last tenure was believed in as its body ended: the term itself forgets that
        )
        self._sinks = sinks

    async def __aenter__(self) -> Self:
        self._heard.__enter__()
        self._task = asyncio.create_task(self.election.lead(self._body, sinks=self._sinks))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        self._heard.__exit__()

    async def _body(self, term: Tenure) -> None:
        self.term = term
        try:
            await asyncio.Event().wait()
        finally:
            self.term, self.believed_until = None, term._term.valid_until

    @property
    def left(self) -> list[Left]:
        """The tenures that have ended."""
        return self._heard.left

    @property
    def tokens(self) -> list[int]:
        """The tokens that it got, in their order."""
        return self._heard.tokens

    async def leads(self) -> Tenure:
        """Wait until it is in office."""
        await until(lambda: self.term is not None or self._task.done())
        assert self.term is not None, f"it ended: {self._task}"
        return self.term

    async def waits(self, cluster: EtcdCluster) -> None:
        """Wait until it stands in the queue."""
        holder = str(self.election.holder).encode()
        async with client_of(cluster.url) as client:

            async def stands() -> bool:
                return any(holder in kv.value for kv in await keys(client, self.election.name))

            await until_so(stands)

    async def renews(self, since: int) -> None:
        """Wait until a renewal was answered that was sent later than ``since``, and see that the tenure is still the same."""
        term = self.term
        assert term is not None

        def renewed() -> bool:
            return term._term.valid_until - self.election.timing.valid_for_ns > since or bool(self.left)

        await until(renewed)
        assert self.left == []
        assert self.term is term
        assert term.valid


async def ctl(etcd: EtcdCluster, *arguments: str) -> str:
    """What somebody does by hand."""
    return await asyncio.to_thread(etcd.ctl, *arguments)


def store_of(opened: OpenStore) -> EtcdStore:
    store = opened.store
    assert isinstance(store, EtcdStore)
    return store


def member_of(opened: OpenStore, cluster: EtcdCluster) -> Node:
    """The node that a store talks to."""
    endpoint = store_of(opened)._client.endpoint
    return next(node for node in cluster.nodes if node.endpoint == endpoint)


def bid_of(name: str, holder: Holder | None = None, serial: int = 1, ttl_s: float = 6.0) -> Bid:
    return Bid(name, holder or Holder.fresh(), serial, round(ttl_s * 1e9))


async def keys(client: EtcdClient, election: str) -> tuple[KeyValue, ...]:
    """What lies below the name of an election."""
    prefix = f"{election}/".encode()
    return (await client.range(Range(prefix, prefix_end(prefix), oldest_first=True), operation="look")).kvs


async def revision_of(client: EtcdClient) -> int:
    """Up to where the cluster has come."""
    return (await client.range(Range(b"\0", keys_only=True), operation="look")).revision


async def appears(client: EtcdClient, name: str, since: int) -> KeyValue:
    """Wait until there was a key below the name of an election after revision ``since``, and return it.

    It is looked for at every revision: the key may be gone before anybody has seen it stand.
    """
    prefix = f"{name}/".encode()
    ask = codec.encode_range(Range(prefix, prefix_end(prefix), oldest_first=True))
    async with asyncio.timeout(PATIENCE_S):
        while True:
            reached = await revision_of(client)
            for revision in range(since + 1, reached + 1):
                at = put_int(_RANGE_AT_REVISION, revision)
                there = await client.call("KV/Range", ask + at, codec.decode_range, "look")
                if there.kvs:
                    return there.kvs[0]
            since = reached
            await asyncio.sleep(LOOK_S)


async def disappears(client: EtcdClient, name: str) -> None:
    """Wait until there is no key below the name of an election."""

    async def gone() -> bool:
        return await keys(client, name) == ()

    await until_so(gone)


def _metrics(cluster: EtcdCluster, node: Node) -> str:
    """What a node counts. One that was too busy to say is asked again: else its calls would seem never to have been."""
    told = ""

    def tells() -> bool:
        nonlocal told
        told = cluster.metrics(node)
        return bool(told) or not node.reachable

    assert wait_for(tells, PATIENCE_S), f"{node} does not tell"
    return told


def counted(cluster: EtcdCluster) -> Counter[str]:
    """How many calls, and messages of streams, have reached the cluster, as it counts them: ``started Txn`` and so on."""
    counts: Counter[str] = Counter()
    for node in cluster.nodes:
        for match in _COUNTED.finditer(_metrics(cluster, node)):
            kind = match["counter"].removeprefix("grpc_server_").removesuffix("_total")
            counts[f"{kind} {match['method']}"] += int(float(match["count"]))
    return counts

"""The fences of an etcd cluster. Lowering is one transaction, which compares the revisions of the fence and of the record."""

from collections.abc import Mapping

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.messages import Put, Range, Txn, modified, prefix_end
from tenure.clients.etcd.opening import client_of, etcd_url
from tenure.sinks.etcd import FENCES
from tenure.sinks.mending.over_keys import Found, KeyFences, Swap


class EtcdFences(KeyFences[EtcdClient, int]):
    """See ``Mendable``."""

    def __init__(self, url: str, fences: str = FENCES) -> None:
        super().__init__(etcd_url(url).shown, fences)
        self._url = url

    def opened(self, operation: str) -> EtcdClient:  # noqa: ARG002  (it says "open")
        return client_of(self._url)

    async def values(self, client: EtcdClient) -> Mapping[str, bytes]:
        prefix = self.fences.encode()
        found = await client.range(Range(prefix, prefix_end(prefix)), operation="read")
        return {kv.key[len(prefix) :].decode("utf-8", "replace"): kv.value for kv in found.kvs}

    async def found(self, client: EtcdClient, key: str, operation: str) -> Found[int]:
        kvs = (await client.range(Range(key.encode()), operation=operation)).kvs
        return Found(kvs[0].value, kvs[0].mod_revision) if kvs else Found(b"", 0)

    async def swapped(self, client: EtcdClient, fence: Swap[int], record: Swap[int]) -> bool:
        both = [(swap, swap.key.encode()) for swap in (fence, record)]
        unchanged = tuple(modified(key, swap.found.mark) for swap, key in both)
        puts = tuple(Put(key, swap.value) for swap, key in both)
        return (await client.txn(Txn(unchanged, puts, ()), operation="repair")).succeeded

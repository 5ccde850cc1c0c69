"""The fences of a Consul. Lowering is one transaction, which compares the indexes of the fence and of the record."""

from collections.abc import Mapping

from tenure.clients.consul.client import ConsulClient
from tenure.clients.consul.failures import Conflict
from tenure.clients.consul.messages import put_if_unchanged
from tenure.clients.consul.settings import settings_of
from tenure.sinks.consul import FENCES
from tenure.sinks.mending.over_keys import Found, KeyFences, Swap


class ConsulFences(KeyFences[ConsulClient, int]):
    """See ``Mendable``."""

    def __init__(self, url: str, fences: str = FENCES) -> None:
        self._settings = settings_of(url)
        super().__init__(self._settings.address, fences)

    def opened(self, operation: str) -> ConsulClient:  # noqa: ARG002  (it says "open")
        return ConsulClient(self._settings)

    async def values(self, client: ConsulClient) -> Mapping[str, bytes]:
        keys = await client.keys(self.fences, operation="read")
        pairs = [await client.get(key, operation="read") for key in keys]
        return {pair.key.removeprefix(self.fences): pair.value for pair in pairs if pair is not None}

    async def found(self, client: ConsulClient, key: str, operation: str) -> Found[int]:
        pair = await client.get(key, operation=operation)
        return Found(b"", 0) if pair is None else Found(pair.value, pair.modify_index)

    async def swapped(self, client: ConsulClient, fence: Swap[int], record: Swap[int]) -> bool:
        ops = [put_if_unchanged(swap.key, swap.value, 0, swap.found.mark) for swap in (fence, record)]
        try:
            await client.txn(ops, operation="repair")
        except Conflict:
            return False
        return True

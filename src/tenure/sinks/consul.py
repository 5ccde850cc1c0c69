"""Keys in Consul as a sink: the fence is compared in the caller's own transaction. Runs on asyncio.

The fence is a key whose value is the highest token seen, as twenty digits. A transaction of Consul compares no values, only
the index of a key's last write. So a sink remembers at which index the fence got its token, and a write is one transaction:
the fence has this index, and what the caller asks. A successor's seal writes the fence, so whatever an older leader sends
afterwards finds another index there, however long it was on its way. (``check-session`` would not do: one session serves
many tenures, so a write of an earlier tenure of the same process would pass.)
"""

from collections.abc import Sequence
from typing import Final

from tenure.clients.consul.client import ConsulClient
from tenure.clients.consul.failures import Conflict
from tenure.clients.consul.messages import Op, Pair, delete, put, put_if_unchanged, unchanged
from tenure.clients.consul.settings import settings_of
from tenure.errors import OutcomeUnknown
from tenure.model import Token
from tenure.sinks.base import Bound, Verify
from tenure.sinks.digits import digits_of, number_in
from tenure.sinks.over_client import ClientSink

FENCES: Final = "tenure/fence/"
# Each try that fails is another one's seal that came between; there are not many leaders at once.
_TRIES_MAX: Final = 8


class BoundConsul:
    """A sink as one tenure may use it. Fails with StaleToken once that tenure has been succeeded."""

    __slots__ = ("_sink", "_term")

    def __init__(self, sink: "ConsulSink", term: Bound) -> None:
        self._sink, self._term = sink, term

    async def put(self, key: str, value: bytes, flags: int = 0) -> None:
        """Write one key."""
        await self.txn([put(key, value, flags)])

    async def delete(self, key: str) -> None:
        """Delete one key."""
        await self.txn([delete(key)])

    async def txn(self, ops: Sequence[Op]) -> list[Pair]:
        """Carry out operations of your own, all or none, if this tenure has not been succeeded, in one step with that check.

        They are as ``PUT /v1/txn`` has them: ``{"KV": {"Verb": …, "Key": …}}``, up to 63. Raises ``Conflict``, whose
        ``errors`` are numbered as ``ops`` are, if one of them is refused.
        """
        return await self._sink.txn(self._term, ops)


class ConsulSink(ClientSink[ConsulClient]):
    """Keys in Consul that refuse writes of a leader that was succeeded: ``async with ConsulSink(url) as sink``.

    ``cluster`` is a URL as for ``open_store``, or a client that is open and stays the caller's. The fences are keys that
    begin with ``fences``, which whoever writes must be allowed to read and write. With ``verify``, a token higher than any
    seen is confirmed by it first.

    Fences only what is written through it, or with ``guard`` in a transaction of another client. Does not promise to know
    a write whose answer was lost: that raises OutcomeUnknown, and may have been carried out. Nor does it outlive its fence:
    whoever deletes that key lets an older leader write until the next seal.
    """

    kind = "consul"

    def __init__(self, cluster: str | ConsulClient, *, fences: str = FENCES, verify: Verify | None = None) -> None:
        client = ConsulClient(settings_of(cluster)) if isinstance(cluster, str) else cluster
        super().__init__(client, owns=client is not cluster, fences=fences, verify=verify)
        self._sealed: dict[str, tuple[int, int]] = {}  # by fence: a token, and the index at which the fence got it

    def bind(self, term: Bound) -> BoundConsul:
        """Return the sink as ``term`` may use it. It fails once that tenure has been succeeded."""
        return BoundConsul(self, term)

    async def guard(self, term: Bound) -> Op:
        """Return the operation that a transaction of another client must begin with, to count under ``term``.

        Seals the fence first unless that was done here. Good until the next seal, so a refusal may mean no more than that
        somebody has sealed with the same token: ask for another guard, which raises StaleToken if it is more than that.
        """
        token, index = self._sealed.get(term.fence, (0, 0))
        if token != term.token:
            await self.seal(term.fence, Token(term.token))
            _, index = self._sealed[term.fence]
        return unchanged(self._key(term.fence), index)

    async def txn(self, term: Bound, ops: Sequence[Op]) -> list[Pair]:
        """Carry out ``ops`` under ``term``. Raises StaleToken, and changes nothing, if a larger token was here."""
        for _ in range(_TRIES_MAX):
            guard = await self.guard(term)
            try:
                _, *results = await self._client.txn([guard, *ops], operation="write")
            except Conflict as conflict:
                if 0 not in conflict.errors:
                    raise Conflict({number - 1: what for number, what in conflict.errors.items()}) from None
                self._sealed.pop(term.fence, None)  # Higher than any seen; or stale, and then the next seal says so.
                continue
            return results
        raise OutcomeUnknown(self._client.address, "write", "the fence changed with every try; nothing was written")

    async def seal(self, fence: str, token: Token) -> None:
        """Raise the fence to ``token`` (see ``Sink``)."""
        key, own = self._key(fence), digits_of(token).encode()
        for _ in range(_TRIES_MAX):
            found = await self._client.get(key, operation="seal")
            highest = 0 if found is None else number_in(found.value, key, self._client.address)
            await self.judge(fence, token, highest)
            if found is not None and highest == token:
                self._sealed[fence] = token, found.modify_index
                return
            raised = put_if_unchanged(key, own, 0, 0 if found is None else found.modify_index)
            try:
                (written,) = await self._client.txn([raised], operation="seal")
            except Conflict:
                continue
            self._sealed[fence] = token, written.modify_index
            return
        raise OutcomeUnknown(self._client.address, "seal", "the fence changed with every try")

    def _key(self, fence: str) -> str:
        return f"{self._fences}{fence}"

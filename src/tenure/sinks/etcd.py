"""Keys in etcd as a sink: the fence is compared in the caller's own transaction. Runs on asyncio.

The fence is a key whose value is the highest token seen, as twenty digits. A write is one transaction: if the fence has
exactly this token, do what the caller asks, else say what the fence has. A successor's seal changes the fence, so whatever
an older leader sends afterwards finds another value there, however long it was on its way. A leader whose token was not
sealed raises the fence and writes in one transaction as well.
"""

from collections.abc import Sequence
from typing import Final

from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.messages import (
    Compare,
    Delete,
    KeyValue,
    Put,
    Range,
    RangeAnswer,
    Txn,
    TxnAnswer,
    has_value,
    modified,
)
from tenure.clients.etcd.opening import client_of
from tenure.errors import OutcomeUnknown
from tenure.model import Token
from tenure.sinks.base import Bound, Verify
from tenure.sinks.digits import digits_of, number_in
from tenure.sinks.over_client import ClientSink

FENCES: Final = "tenure/fence/"
_TRIES_MAX: Final = (
    8  # Each try that fails is another one's seal that came between; there are not many leaders at once.
)


class BoundEtcd:
    """A sink as one tenure may use it. Fails with StaleToken once that tenure has been succeeded."""

    __slots__ = ("_sink", "_term")

    def __init__(self, sink: "EtcdSink", term: Bound) -> None:
        self._sink, self._term = sink, term

    async def put(self, key: bytes, value: bytes, lease: int = 0) -> None:
        """Write one key."""
        await self.txn(success=(Put(key, value, lease),))

    async def delete(self, key: bytes, end: bytes = b"") -> None:
        """Delete one key, or those from ``key`` to below ``end``."""
        await self.txn(success=(Delete(key, end),))

    async def txn(
        self,
        compare: Sequence[Compare] = (),
        success: Sequence[Put | Range | Delete] = (),
        failure: Sequence[Put | Range | Delete] = (),
    ) -> TxnAnswer:
        """Carry out a transaction of your own if this tenure has not been succeeded, in one step with that check."""
        return await self._sink.txn(self._term, Txn(tuple(compare), tuple(success), tuple(failure)))


class EtcdSink(ClientSink[EtcdClient]):
    """Keys in an etcd cluster that refuse writes of a leader that was succeeded: ``async with EtcdSink(url) as sink``.

    ``cluster`` is a URL as for ``open_store``, or a client that is open and stays the caller's. The fences are keys that
    begin with ``fences``, which whoever writes must be allowed to read and write. With ``verify``, a token higher than any
    seen is confirmed by it first.

    Fences only what is written through it, or with ``guard`` in a transaction of another client. Does not promise to know
    a write whose answer was lost: that raises OutcomeUnknown, and may have been carried out.
    """

    kind = "etcd"

    def __init__(self, cluster: str | EtcdClient, *, fences: str = FENCES, verify: Verify | None = None) -> None:
        client = client_of(cluster) if isinstance(cluster, str) else cluster
        super().__init__(client, owns=client is not cluster, fences=fences, verify=verify)

    def bind(self, term: Bound) -> BoundEtcd:
        """Return the sink as ``term`` may use it. It fails once that tenure has been succeeded."""
        return BoundEtcd(self, term)

    def guard(self, term: Bound) -> tuple[bytes, bytes]:
        """Return the key and the value that a transaction of another client must compare, to count under ``term``.

        Holds only once the fence was sealed with this token, which an election does for the sinks that it was given.
        """
        return self._key(term.fence), digits_of(term.token).encode()

    async def txn(self, term: Bound, txn: Txn) -> TxnAnswer:
        """Carry out ``txn`` under ``term``. Raises StaleToken, and changes nothing, if a larger token was here."""
        key, own = self.guard(term)
        # The caller's transaction stands inside, so that not even its ``failure`` part is carried out for a stale leader.
        fenced = attempt = Txn((has_value(key, own),), (txn,), (Range(key),))
        for _ in range(_TRIES_MAX):
            answer = await self._client.txn(attempt, operation="write")
            if answer.succeeded:
                inner = answer.answers[-1]
                assert isinstance(inner, TxnAnswer), f"a transaction was asked for, and {inner} came"
                return inner
            ranged = answer.answers[0]
            assert isinstance(ranged, RangeAnswer), f"a range was asked for, and {ranged} came"
            if await self._is_raised(term.fence, Token(term.token), ranged.kvs):
                attempt = fenced
            else:  # Raised with the write: whoever dies on the way has left neither.
                attempt = Txn((_unchanged(key, ranged.kvs),), (Put(key, own), txn), (Range(key),))
        raise OutcomeUnknown(self._client.address, "write", "the fence changed with every try; nothing was written")

    async def seal(self, fence: str, token: Token) -> None:
        """Raise the fence to ``token`` (see ``Sink``)."""
        key, own = self._key(fence), digits_of(token).encode()
        for _ in range(_TRIES_MAX):
            found = (await self._client.range(Range(key), operation="seal")).kvs
            if await self._is_raised(fence, token, found):
                return
            if (
                await self._client.txn(Txn((_unchanged(key, found),), (Put(key, own),), ()), operation="seal")
            ).succeeded:
                return
        raise OutcomeUnknown(self._client.address, "seal", "the fence changed with every try")

    async def _is_raised(self, fence: str, token: Token, found: Sequence[KeyValue]) -> bool:
        """Say whether the fence has this token, by what was found there. Raises if it may not be raised to it."""
        if not found:
            highest = 0
        else:
            highest = number_in(found[0].value, found[0].key.decode("utf-8", "replace"), self._client.address)
        await self.judge(fence, token, highest)
        # The same number in another spelling ("7", mended by hand) is written anew: writers compare the value.
        return bool(found) and found[0].value == digits_of(token).encode()

    def _key(self, fence: str) -> bytes:
        return f"{self._fences}{fence}".encode()


def _unchanged(key: bytes, found: Sequence[KeyValue]) -> Compare:
    return modified(key, found[0].mod_revision if found else 0)

"""What the etcd store says when one half of a claim was answered and the other was not."""

import asyncio
from typing import TYPE_CHECKING, cast

import pytest
from tests.leaping import LeapingClock

from tenure.clients.etcd.keepalive import Begun
from tenure.clients.etcd.messages import (
    Delete,
    DeleteAnswer,
    KeyValue,
    LeaseGranted,
    Put,
    PutDone,
    Range,
    RangeAnswer,
    Renewal,
    Txn,
    TxnAnswer,
)
from tenure.errors import OutcomeUnknown, Unreachable
from tenure.model import Bid, Grant, Holder, Token
from tenure.stores.etcd.store import EtcdStore

if TYPE_CHECKING:
    from tenure.clients.etcd.client import EtcdClient


class HalfDeaf:
    """An etcd of one lease whose transactions work, and whose renewals cannot be sent for a while."""

    address = "etcd://half.deaf"
    call_timeout_s = 2.0

    def __init__(self) -> None:
        self.revision = 6
        self.keys: dict[bytes, KeyValue] = {}
        self.renewals_fail = False

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def lease_grant(self, ttl_s: int) -> LeaseGranted:
        return LeaseGranted(0xBEEF, ttl_s)

    def begin_renewal(self, _: int) -> Begun:
        return Begun(until_s=0.0)

    async def lease_renewal(self, _: int, __: Begun | None = None) -> Renewal:
        if self.renewals_fail:
            raise Unreachable(self.address, "renew a lease", "no connection")
        return Renewal(3, 1)

    async def lease_revoke(self, _: int) -> None: ...

    async def txn(self, txn: Txn, *, operation: str) -> TxnAnswer:
        assert operation in ("claim", "release")
        revisions = {key: kv.create_revision for key, kv in self.keys.items()}  # No key here is written twice.
        succeeded = all(revisions.get(condition.key, 0) == condition.operand for condition in txn.compare)
        answers = tuple(self._carry_out(one) for one in (txn.success if succeeded else txn.failure))
        return TxnAnswer(self.revision, succeeded, answers)

    def _carry_out(self, one: object) -> PutDone | RangeAnswer | DeleteAnswer:
        if isinstance(one, Delete):
            return DeleteAnswer(1 if self.keys.pop(one.key, None) else 0)
        if isinstance(one, Put):
            self.revision += 1
            self.keys[one.key] = KeyValue(one.key, one.value, self.revision, self.revision, 1, one.lease)
            return PutDone()
        assert isinstance(one, Range)
        below = tuple(
            kv
            for key, kv in self.keys.items()
            if one.key <= key < one.end and kv.create_revision <= (one.max_create_revision or self.revision)
        )
        return RangeAnswer(below, len(below))


def test_a_claim_whose_key_was_put_and_whose_renewal_was_not_sent_has_no_known_outcome() -> None:
    async def story() -> None:
        engine = HalfDeaf()
        async with EtcdStore(cast("EtcdClient", engine)) as store:
            holder = Holder.fresh()
            assert isinstance(await store.claim(Bid("a", holder, 1, 3 * 10**9)), Grant)  # It makes the lease.
            bid = Bid("b", holder, 1, 3 * 10**9)
            engine.renewals_fail = True
            # Unreachable would say that nothing has changed, and the key stands in the queue.
            with pytest.raises(OutcomeUnknown, match="no connection"):
                await store.claim(bid)
            engine.renewals_fail = False
            assert await store.claim(bid) == Grant(bid, Token(8))

    asyncio.run(story())


def test_a_bid_that_goes_on_asking_in_vain_is_not_given_up() -> None:
    async def story() -> None:
        engine, clock = HalfDeaf(), LeapingClock()
        async with EtcdStore(cast("EtcdClient", engine), clock=clock) as store:
            holder = Holder.fresh()
            assert isinstance(await store.claim(Bid("a", holder, 1, 60 * 10**9)), Grant)  # It makes the lease.
            bid = Bid("b", holder, 1, 60 * 10**9)

            async def is_due() -> None:
                place = store._places.find(bid)
                assert place is not None
                await store._give_up(place)  # As whoever keeps the lease does.

            engine.renewals_fail = True
            for _ in range(3):
                with pytest.raises(OutcomeUnknown, match="no connection"):
                    await store.claim(bid)
                clock.ahead_ns += 2 * bid.ttl_ns  # Three times this is longer than a bid stands that does not ask.
                await is_due()
            assert b"b/beef" in engine.keys
            engine.renewals_fail = False
            assert await store.claim(bid) == Grant(bid, Token(8))
            clock.ahead_ns += 2 * bid.ttl_ns
            await is_due()
            assert b"b/beef" not in engine.keys

    asyncio.run(story())

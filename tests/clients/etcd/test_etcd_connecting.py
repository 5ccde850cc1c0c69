"""Members that take long to be reached: connecting goes on beside the calls that need it, and whoever gives up costs nothing."""

import asyncio

import pytest

from tenure.clients.etcd.client import EtcdClient
from tenure.errors import Refused, Unreachable
from tenure.testing.engines import EtcdCluster
from tests.clients.etcd.etcd_client_rig import Forwarder, fresh_key, get, play, until

FAR = "etcd://far-away"
HURRY_S = 0.2  # what a store leaves for one call if somebody has a ttl of a second


class FarAway(Forwarder):
    """A way to a member on which every connection is silent until it is let through; later ones are not."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint)
        self.is_near = True
        self.gates: list[asyncio.Event] = []  # one for each connection that came while it was not near

    def let_through(self) -> None:
        for gate in self.gates:
            gate.set()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not self.is_near:
                self.gates.append(gate := asyncio.Event())
                await gate.wait()
            await super()._forward(reader, writer)
        finally:
            writer.transport.abort()

    async def move_away(self) -> None:
        """Cut all connections, and be silent on those that come next."""
        await self.hang_up()
        self.is_near = False
        await self.listen()


async def in_a_hurry(client: EtcdClient, way: FarAway) -> None:
    """Have a client that knows its cluster lose it, and be left little time for each call."""
    await way.move_away()
    connection = client._connection
    assert connection is not None
    await until(lambda: connection.closed)
    client.call_timeout_s = HURRY_S


def test_a_member_that_takes_longer_to_reach_than_a_call_may_take_is_reached(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with FarAway(etcd.endpoints[0]) as way, EtcdClient([way.endpoint], address=FAR) as client:
            await in_a_hurry(client, way)
            for _ in range(3):
                with pytest.raises(Unreachable, match="no answer within"):
                    await get(client, fresh_key())
            way.let_through()  # Those that there are. Who begins anew with each call has hung up on them.
            await until(lambda: client._connection is not None)
            client.call_timeout_s = 20
            assert (await get(client, fresh_key())).kvs == ()

    play(story())


def test_callers_who_give_up_do_not_end_the_search_that_others_wait_for(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with FarAway(etcd.endpoints[0]) as way, EtcdClient([way.endpoint], address=FAR) as client:
            await in_a_hurry(client, way)
            client.call_timeout_s = 20
            first = asyncio.create_task(get(client, fresh_key()))
            await until(lambda: bool(way.gates))
            second = asyncio.create_task(get(client, fresh_key()))
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait([first])
            assert first.cancelled()
            way.let_through()
            assert (await second).kvs == ()

    play(story())


def test_a_silent_member_keeps_nobody_from_the_next_one_and_is_left_when_that_answers(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with FarAway(etcd.endpoints[0]) as way:
            way.is_near = False
            client = EtcdClient([way.endpoint, etcd.endpoints[1]], address=FAR, call_timeout_s=30)
            client._endpoints.sort(key=lambda endpoint: str(endpoint) != way.endpoint)
            async with client:
                assert client.endpoint == etcd.endpoints[1]
                assert len(way.gates) == 1
                way.let_through()
                await until(lambda: not way._tasks)  # The client has hung up there.
                assert (await get(client, fresh_key())).kvs == ()

    play(story())


def test_who_gives_up_first_is_told_what_each_member_did() -> None:
    async def story() -> None:
        async with FarAway("127.0.0.1:1") as way:
            way.is_near = False
            client = EtcdClient(["127.0.0.1:1", way.endpoint], address=FAR, call_timeout_s=2)
            with pytest.raises(Unreachable) as caught:
                await client.__aenter__()
            assert "127.0.0.1:1: nobody listens on that port" in caught.value.detail
            assert f"{way.endpoint}: no answer within 2 s" in caught.value.detail

    play(story())


def test_a_client_that_is_closed_while_it_connects_leaves_nothing_behind(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with FarAway(etcd.endpoints[0]) as way:
            client = EtcdClient([way.endpoint], address=FAR)
            await client.__aenter__()
            await in_a_hurry(client, way)
            client.call_timeout_s = 20
            call = asyncio.create_task(get(client, fresh_key()))
            await until(lambda: bool(way.gates))
            await client.close()
            with pytest.raises((Refused, Unreachable)):
                await call
            assert client._connection is None
            way.let_through()
            await until(lambda: not way._tasks)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    play(story())


def test_a_caller_who_does_not_wait_for_a_token_does_not_cost_others_the_connection(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with (
            Forwarder(etcd.endpoints[0]) as way,
            # The cluster has no users, and says so when it is asked for a token: that is as good here.
            EtcdClient([way.endpoint], address=FAR, user="ada", password="x", call_timeout_s=20) as client,
        ):
            connection, client._token = client._connection, None
            way.deaf = True
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(HURRY_S):
                    await get(client, fresh_key())
            assert client._connection is connection

    play(story())

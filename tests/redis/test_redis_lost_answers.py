"""Answers that are lost, messages that are lost, and data that are lost: what the store makes of each."""

import asyncio

import pytest

from tenure.errors import OutcomeUnknown, Refused, StoreError, Unreachable
from tenure.model import Bid, Ended, Grant, Holder, Wait
from tenure.stores.redis import RedisStore, from_url
from tenure.testing.engines import RedisCluster
from tenure.testing.engines.processes import wait_for
from tests.proxy import Proxy

TTL_NS = 120 * 10**9  # So that no lease ends by itself while somebody waits.


def bid(election: str, serial: int = 1) -> Bid:
    return Bid(election, Holder.fresh(), serial, TTL_NS)


async def granted(store: RedisStore, asked: Bid) -> Grant:
    answer = await store.claim(asked)
    assert isinstance(answer, Grant), answer
    return answer


def test_a_claim_without_an_answer_is_unknown_and_counted_once(server: RedisCluster) -> None:
    async def run() -> None:
        async with from_url(server.url, timeout="0.5") as store, from_url(server.url) as patient:
            before = await granted(patient, bid("lost-before"))
            asked = bid("lost")
            server.nodes[0].pause()
            with pytest.raises(OutcomeUnknown, match=r"no answer within 0\.5 s"):
                await store.claim(asked)
            with pytest.raises(Unreachable):  # The next one did not even get a connection.
                await store.claim(asked)
            server.nodes[0].resume()
            # It was carried out when the server ran on. The same bid gets the same tenure, under the same token.
            grant = await granted(patient, asked)
            assert grant.token == before.token + 1
            assert await granted(store, asked) == grant
            assert await store.renew(grant) == grant

    asyncio.run(run())


def test_a_server_that_dies_is_unreachable_and_one_that_is_back_is_used_again(server: RedisCluster) -> None:
    async def run() -> None:
        async with from_url(server.url) as store:
            grant = await granted(store, bid("dies"))
            server.nodes[0].kill()
            with pytest.raises(StoreError):
                await store.renew(grant)
            with pytest.raises(Unreachable, match="nobody listens on that port"):
                await store.renew(grant)
            server.nodes[0].start()
            assert await store.renew(grant) == grant  # It writes everything down.

    asyncio.run(run())


async def standing_by(server: RedisCluster, store: RedisStore, standby: Bid) -> "asyncio.Task[None]":
    """Return the wait of a candidate that has heard who leads, and is listened for."""
    wait = await store.claim(standby)
    assert isinstance(wait, Wait)
    waiting = asyncio.create_task(store.changed(wait))
    channel = f"tenure:left:0:{standby.election}"
    assert await asyncio.to_thread(wait_for, lambda: server.ctl("PUBSUB", "NUMSUB", channel).endswith("1"), 30)
    return waiting


def test_a_standby_that_cannot_look_is_woken_by_the_message_alone(server: RedisCluster) -> None:
    async def run() -> None:
        async with (
            from_url(server.url) as store,
            Proxy(server.nodes[0].endpoint) as proxy,
            # Its looks are not answered, and for so long it does not notice.
            from_url(f"redis://{proxy.endpoint}", timeout="60") as other,
        ):
            for election in ("told", "told-anew"):
                leader, standby = await granted(store, bid(election)), bid(election)
                waiting = await standing_by(server, other, standby)
                proxy.hold_requests()
                assert await asyncio.to_thread(
                    wait_for, lambda: proxy.held_bytes > 0, 30
                )  # That is a look, on its way.
                assert not waiting.done()
                await store.release(leader.bid)
                async with asyncio.timeout(30):
                    await waiting
                assert proxy.held_bytes > 0  # It is there still.
                proxy.deliver()
                assert (await granted(other, standby)).token > leader.token
                await asyncio.to_thread(server.ctl, "CLIENT", "KILL", "TYPE", "pubsub")  # The next one listens anew.

    asyncio.run(run())


def test_a_standby_that_hears_no_message_is_woken_by_a_look(server: RedisCluster) -> None:
    async def run() -> None:
        async with from_url(server.url) as store, from_url(server.url) as other:
            leader, standby = await granted(store, bid("untold")), bid("untold")
            waiting = await standing_by(server, other, standby)
            await asyncio.to_thread(server.ctl, "DEL", "tenure:office:untold")  # By hand: nobody says so.
            async with asyncio.timeout(30):
                await waiting
            assert (await granted(other, standby)).token > leader.token

    asyncio.run(run())


def test_data_that_were_lost_make_no_new_name_and_no_token_that_was_seen(server: RedisCluster) -> None:
    async def run() -> None:
        async with from_url(f"{server.url}/1") as store:
            grant = await granted(store, bid("flushed"))
            await asyncio.to_thread(server.ctl, "-n", "1", "FLUSHDB")
            assert await store.renew(grant) == Ended(grant.bid, grant.token)
            assert (await granted(store, bid("flushed"))).token > grant.token
            async with from_url(f"{server.url}/1") as another:
                assert another.identity == store.identity

    asyncio.run(run())


def test_a_store_that_was_named_anew_is_refused_to_whoever_knew_its_old_name(server: RedisCluster) -> None:
    async def run() -> None:
        async with from_url(f"{server.url}/2") as store:
            grant = await granted(store, bid("renamed"))
            await asyncio.to_thread(server.ctl, "-n", "2", "FLUSHDB")
            async with from_url(f"{server.url}/2") as another:
                assert another.identity != store.identity
                for call in (store.renew(grant), store.claim(grant.bid), store.read("renamed")):
                    with pytest.raises(Refused, match="was named anew"):
                        await call

    asyncio.run(run())


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("SET", "tenure:office:by-hand", "mine"), "another kind of value"),
        (("HSET", "tenure:office:by-hand", "holder", "me"), "is no office"),
        (
            ("HSET", "tenure:office:by-hand", "holder", "h/1/n", "serial", "1", "token", "-5", "advertise", ""),
            "no office",
        ),
    ],
)
def test_what_somebody_wrote_by_hand_is_refused_in_one_line(
    server: RedisCluster, command: tuple[str, ...], told: str
) -> None:
    server.ctl("DEL", "tenure:office:by-hand")
    server.ctl(*command)

    async def run() -> None:
        async with from_url(server.url) as store:
            for call in (store.claim(bid("by-hand")), store.read("by-hand")):
                with pytest.raises(Refused, match=told):
                    await call

    asyncio.run(run())


@pytest.mark.parametrize("counter", ["seven", "-3", "9223372036854775807"])
def test_a_counter_that_gives_no_token_is_refused_and_nobody_is_in_office(server: RedisCluster, counter: str) -> None:
    async def run() -> None:
        async with from_url(server.url, prefix="counted") as store:
            await asyncio.to_thread(server.ctl, "SET", "counted:token", counter)
            with pytest.raises(Refused):
                await store.claim(bid("counted"))
            assert await store.read("counted") is None

    asyncio.run(run())


def test_tokens_beyond_the_numbers_of_lua_rise_by_one(server: RedisCluster) -> None:
    async def run() -> list[int]:
        async with from_url(server.url, prefix="large") as store, from_url(server.url, prefix="large") as other:
            await asyncio.to_thread(server.ctl, "SET", "large:token", str(2**53))
            grants = [await granted(store, bid("large"))]
            await store.release(grants[0].bid)
            grants.append(await granted(other, bid("large")))
            return [int(grant.token) for grant in grants]

    assert asyncio.run(run()) == [2**53 + 1, 2**53 + 2]

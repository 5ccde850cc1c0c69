"""Whatever somebody writes by hand where elections are: one line that names the key, and no harm to the other elections."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tenure.errors import Refused
from tenure.model import TOKEN_MAX, Bid, Ended, Grant, Holder, Wait
from tenure.stores.opening import make_store
from tenure.stores.redis.store import RedisStore
from tenure.testing.engines import RedisCluster

TTL_NS = 30 * 10**9
DB = "7"
Run = Callable[[RedisStore], Awaitable[None]]
Ctl = Callable[..., str]


@pytest.fixture
def ctl(server: RedisCluster) -> Iterator[Ctl]:
    yield lambda *words: server.ctl("-n", DB, *words)
    server.ctl("-n", DB, "FLUSHDB")


def with_store(server: RedisCluster, run: Run) -> None:
    async def opened() -> None:
        async with make_store(f"{server.url}/{DB}", {}, accept_best_effort=True) as store:
            await run(store)

    asyncio.run(opened())


async def granted(store: RedisStore, election: str) -> Grant:
    answer = await store.claim(Bid(election, Holder.fresh(), 1, TTL_NS))
    assert isinstance(answer, Grant), answer
    return answer


@pytest.mark.usefixtures("ctl")
@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["ZADD", "tenure:standby:a", "9e15", "rubbish"], "tenure:standby:a has who is nobody"),
        (["ZADD", "tenure:standby:a", "9e15", b"\xff/1/x 1"], "tenure:standby:a has who is nobody"),
        (["HSET", "tenure:office:a", "since", "yesterday"], "tenure:office:a is no office"),
        (["HDEL", "tenure:office:a", "since"], "tenure:office:a is no office"),
        (["SADD", "tenure:elections", b"\xff"], "tenure:elections is no name"),
        (["SET", "tenure:id", b"\xff"], "tenure:id is no name of a store"),
        (["SET", "tenure:id", ""], "tenure:id is no name of a store"),
    ],
)
def test_status_of_edited_keys_is_one_line_that_names_the_key(
    server: RedisCluster, words: list[str | bytes], key: str
) -> None:
    async def edit(store: RedisStore) -> None:
        await granted(store, "a")
        await store._client.call(*words, operation="edit")

    with_store(server, edit)
    command = [sys.executable, "-m", "tenure", "status", "--accept-best-effort", "--store", f"{server.url}/{DB}"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode != 0
    assert told.stderr.count("\n") == 1, told.stderr
    assert key in told.stderr
    assert "delete it" in told.stderr


def test_a_key_of_the_wrong_type_ends_its_own_tenure_and_no_other(server: RedisCluster, ctl: Ctl) -> None:
    async def run(store: RedisStore) -> None:
        ada, bob = await granted(store, "a"), await granted(store, "b")
        ctl("DEL", "tenure:office:a")
        ctl("SET", "tenure:office:a", "rubbish")
        ctl("SET", "tenure:standby:b", "rubbish")
        assert await store.renew_together([ada, bob]) == [Ended(ada.bid, ada.token), bob]
        vacant, held = await store.elections()
        assert (vacant.election, vacant.incumbent) == ("a", None)
        assert held.incumbent is not None
        assert (held.incumbent.holder, held.standbys) == (bob.bid.holder, ())
        async with asyncio.timeout(20):  # It is woken, and its claim says why.
            await store.changed(Wait(Bid("a", Holder.fresh(), 1, TTL_NS), None))
        with pytest.raises(Refused, match="delete that key"):
            await granted(store, "a")
        await store.release(bob.bid)  # Whatever is where standbys are keeps nobody in office.
        assert await store.read("b") is None

    with_store(server, run)


def test_who_waits_for_another_election_is_not_disturbed_by_a_key_of_the_wrong_type(
    server: RedisCluster, ctl: Ctl
) -> None:
    async def run(store: RedisStore) -> None:
        await granted(store, "b")
        ctl("SET", "tenure:office:a", "rubbish")
        left_s = await store._look(["a", "b"])
        assert left_s["a"] == 0
        assert 0 < left_s["b"] <= TTL_NS / 1e9

    with_store(server, run)


@pytest.mark.parametrize("key", ["tenure:elections", "tenure:standby:a"])
def test_a_claim_that_is_refused_leaves_no_office_behind(server: RedisCluster, ctl: Ctl, key: str) -> None:
    async def run(store: RedisStore) -> None:
        ctl("SET", key, "rubbish")
        for _ in range(2):
            with pytest.raises(Refused, match="delete that key"):
                await granted(store, "a")
        assert ctl("EXISTS", "tenure:office:a") == "0"

    with_store(server, run)


@pytest.mark.parametrize("token", [TOKEN_MAX, TOKEN_MAX // 2 + 1])
def test_a_token_that_nobody_gave_out_is_refused_and_not_remembered(server: RedisCluster, ctl: Ctl, token: int) -> None:
    async def run(store: RedisStore) -> None:
        first = await granted(store, "a")
        ctl("HSET", "tenure:office:a", "token", str(token))
        for operation in (granted(store, "a"), store.read("a"), store.claim(first.bid)):
            with pytest.raises(Refused, match="tenure:office:a is no office"):
                await operation
        assert (await granted(store, "b")).token == first.token + 1
        ctl("DEL", "tenure:office:a")
        assert (await granted(store, "a")).token == first.token + 2

    with_store(server, run)


def test_a_token_that_may_be_one_is_never_remembered_so_high_that_elections_would_stop(
    server: RedisCluster, ctl: Ctl
) -> None:
    async def run(store: RedisStore) -> None:
        first = await granted(store, "a")
        ctl("HSET", "tenure:office:a", "token", str(TOKEN_MAX // 2))
        assert await store.read("a") is not None
        assert (await granted(store, "b")).token == first.token + 1
        ctl("HSET", "tenure:office:a", "token", str(TOKEN_MAX // 4))
        assert await store.read("a") is not None
        assert (await granted(store, "c")).token == TOKEN_MAX // 4 + 1  # The counter may have been lost.
        assert (await granted(store, "d")).token == TOKEN_MAX // 4 + 2

    with_store(server, run)


def test_a_counter_that_is_too_large_gives_out_nothing(server: RedisCluster, ctl: Ctl) -> None:
    async def run(store: RedisStore) -> None:
        ctl("SET", "tenure:token", str(TOKEN_MAX // 2))
        with pytest.raises(Refused, match="tenure:token is no number, or too large: mend it"):
            await granted(store, "a")
        assert ctl("EXISTS", "tenure:office:a") == "0"

    with_store(server, run)


def test_an_office_without_its_token_is_blamed_and_the_advice_can_be_read(server: RedisCluster, ctl: Ctl) -> None:
    async def run(store: RedisStore) -> None:
        grant = await granted(store, "a")
        ctl("HDEL", "tenure:office:a", "token")
        with pytest.raises(Refused, match=r"tenure:office:a is no office.*delete it") as told:
            await store.claim(grant.bid)
        assert "***" not in str(told.value)

    with_store(server, run)

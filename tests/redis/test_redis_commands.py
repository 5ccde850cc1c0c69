"""What people are shown of elections in Redis, and what they may ask of a leader: by the store and by the commands."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tenure.model import Bid, Ended, Grant, Holder, Wait
from tenure.stores.opening import make_store
from tenure.testing.engines import RedisCluster

TTL_NS = 30 * 10**9


@pytest.fixture(params=["redis", "redlock"])
def url(request: pytest.FixtureRequest, server: RedisCluster) -> Iterator[str]:
    if request.param == "redis":
        yield f"{server.url}/5"
        server.ctl("-n", "5", "FLUSHDB")
    else:
        with RedisCluster(3, independent=True) as servers:
            yield servers.url


def test_elections_are_listed_with_who_leads_and_who_waits_and_a_leader_hears_that_it_should_leave(url: str) -> None:
    async def run() -> None:
        async with (
            make_store(url, {}, accept_best_effort=True) as store,
            make_store(url, {}, accept_best_effort=True) as other,
        ):
            assert await store.elections() == []
            assert await store.ask_to_resign("b") is None
            ada, bob = Holder("a/d a", 1, "x"), Holder.fresh()
            grant = await store.claim(Bid("b", ada, 1, TTL_NS, advertise="http://ä"))
            assert isinstance(grant, Grant)
            assert isinstance(await other.claim(Bid("b", bob, 3, TTL_NS)), Wait)
            left = await other.claim(Bid("a", bob, 1, TTL_NS))
            await other.release(left.bid)

            vacant, held = await other.elections()
            assert (vacant.election, vacant.incumbent, vacant.standbys) == ("a", None, ())
            assert held.incumbent is not None
            assert (held.incumbent.holder, held.incumbent.token, held.incumbent.advertised) == (
                ada,
                grant.token,
                "http://ä",
            )
            assert held.standbys == (bob,)
            assert not held.resign_asked
            assert held.held_for_ns is not None
            assert 0 <= held.held_for_ns < TTL_NS
            assert held.remaining_ns is not None
            assert 0 < held.remaining_ns <= TTL_NS

            asked = await other.ask_to_resign("b")
            assert asked is not None
            assert asked.holder == ada
            assert not store.resign_asked(grant)
            assert await store.renew(grant) == grant
            assert store.resign_asked(grant)
            (_, held) = await other.elections()
            assert held.resign_asked
            await store.release(grant.bid)
            assert await store.proclaim(grant, "late") == Ended(grant.bid, grant.token)
            again = await store.claim(Bid("b", ada, 2, TTL_NS))
            assert not store.resign_asked(again)  # The word was for the tenure before.

    asyncio.run(run())


def test_commands_run_on_it(server: RedisCluster) -> None:
    tenure = [sys.executable, "-m", "tenure"]
    environment = {**os.environ, "TENURE_STORE": f"{server.url}/6", "TENURE_ACCEPT_BEST_EFFORT": "1"}

    def command(*words: str, stderr: str = "") -> str:
        done = subprocess.run(
            [*tenure, *words], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        assert stderr in done.stderr
        return done.stdout

    inside = f"{sys.executable} -m tenure status --json"
    (told,) = json.loads(command("lock", "books", "--", "sh", "-c", inside))["elections"]
    assert told["election"] == "books"
    assert told["token"] == 1
    assert told["leader"] is not None
    status = json.loads(command("status", "--json"))
    assert "token can be lost" in status["best_effort"]
    (told,) = status["elections"]
    assert told["leader"] is None
    assert "best effort" not in command("status", stderr="/6 is best effort: ")
    assert "nobody is in office" in command("resign", "books")
    assert command("run", "books", "--once", "--", "sh", "-c", "echo $TENURE_TOKEN") == "2\n"

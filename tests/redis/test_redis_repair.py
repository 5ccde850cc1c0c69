"""A fence in Redis is lowered by one script, with its record."""

import asyncio
from functools import partial
from typing import Any

import pytest
from anyio import to_thread

from tenure.errors import Refused
from tenure.model import Token
from tenure.sinks import Bound, RedisSink, fences_of, lower_fence
from tenure.testing.engines import RedisCluster
from tests.sinks.repairs import POISON, WHY, Place, check_command, check_race, check_repair, refused_in_one_line


async def write(sink: Any, term: Bound) -> None:
    await sink.bind(term).set("book", str(term.token))


def place_at(cluster: RedisCluster, fence: str) -> Place:
    return Place(cluster.url, f"repair/{fence}", lambda verify=None: RedisSink(cluster.url, verify=verify), write)


def test_a_fence_is_lowered_in_one_step(server: RedisCluster) -> None:
    asyncio.run(check_repair(place_at(server, "story*?[a]\\^")))


def test_by_the_command_line(server: RedisCluster) -> None:
    check_command(place_at(server, "command"))


def test_a_fence_that_was_mended_by_hand_is_compared_as_a_number(server: RedisCluster) -> None:
    place = place_at(server, "hand")
    server.ctl("SET", f"tenure:fence:{place.fence}", "900")

    async def run() -> None:
        await place.lower(900, 7)
        assert (await place.look()).highest == {place.fence: 7}
        async with RedisSink(server.url) as sink:
            await place.written(sink, 7)
        server.ctl("SET", f"tenure:fence:{place.fence}", "-9")
        with pytest.raises(Refused, match=r"has '-9' where a number must be: mend it"):
            await place.lower(9, 7)
        server.ctl("DEL", f"tenure:fence:{place.fence}")

    asyncio.run(run())


def test_a_record_that_cannot_be_written_leaves_the_fence(server: RedisCluster) -> None:
    place = place_at(server, "record")

    async def run() -> None:
        async with RedisSink(server.url, fences="another:") as sink:
            await sink.seal(place.fence, Token(POISON))
        server.ctl("LPUSH", "another-repairs", "something else")
        with pytest.raises(Refused, match="WRONGTYPE"):
            await to_thread.run_sync(
                partial(lower_fence, server.url, place.fence, was=POISON, to=7, why=WHY, fences="another:")
            )
        server.ctl("DEL", "another-repairs")
        found = await to_thread.run_sync(partial(fences_of, server.url, fences="another:"))
        assert found == ({place.fence: POISON}, ())
        server.ctl("SET", "another-repairs", "rubbish")
        with pytest.raises(Refused, match="another-repairs was edited"):
            await to_thread.run_sync(partial(fences_of, server.url, fences="another:"))
        server.ctl("DEL", "another-repairs")

    asyncio.run(run())


def test_a_user_with_no_right_to_the_record_may_not(server: RedisCluster) -> None:
    place = place_at(server, "rights")
    rights = ("~tenure:fence:*", "~book", "+@connection", "+@scripting", "+@read", "+@write")
    server.ctl("ACL", "SETUSER", "leader", "on", ">geheim", *rights)
    leader = server.url.replace("redis://", "redis://leader:geheim@")

    async def run() -> None:
        async with RedisSink(leader) as sink:
            await sink.seal(place.fence, Token(POISON))
            await place.written(sink, POISON)
        with pytest.raises(Refused, match="NOPERM") as told:
            await place._replace(target=leader).lower(POISON, 7)
        assert "geheim" not in str(told.value)
        assert await place.look() == ({place.fence: POISON}, ())

    try:
        asyncio.run(run())
        wrong = leader.replace("geheim", "verkehrt")
        assert "WRONGPASS" in refused_in_one_line(69, "show", wrong, secret="verkehrt")
    finally:
        server.ctl("ACL", "DELUSER", "leader")


def test_the_record_of_a_prefix_without_an_end_is_no_fence(server: RedisCluster) -> None:
    async def run() -> None:
        async with RedisSink(server.url, fences="app-fence") as sink:
            await sink.seal("books", Token(9))

    asyncio.run(run())
    for was in (9, 8):
        lower_fence(server.url, "books", was=was, to=was - 1, why=WHY, fences="app-fence")
    found = fences_of(server.url, fences="app-fence")
    assert found.highest == {"books": 7}
    assert [repair.was for repair in found.repairs] == [9, 8]


def test_of_many_at_once_one_does_it(server: RedisCluster) -> None:
    asyncio.run(check_race(place_at(server, "many")))


def test_what_cannot_be_asked_is_told_in_one_line(server: RedisCluster) -> None:
    lower = ("books", "--was", "9", "--to", "7", "--why", WHY)
    dead = "redis://me:geheim@127.0.0.1:1"
    assert "was not sent" in refused_in_one_line(69, "show", dead, secret="geheim")
    assert "was not sent" in refused_in_one_line(69, "lower", dead, *lower, secret="geheim")
    assert "no number of a database" in refused_in_one_line(2, "show", "redis://me:geheim@h1/books", secret="geheim")
    assert "has no fences" in refused_in_one_line(2, "show", server.url, "--fences", "nothing:")
    assert "which is 0" in refused_in_one_line(2, "lower", server.url, *lower, "--fences", "nothing:")
    assert "must be a folder" in refused_in_one_line(2, "show", "redlock://me:geheim@h1,h2,h3", secret="geheim")

"""A fence in ZooKeeper is lowered by one multi, with its record."""

import asyncio
from typing import Any

from tenure.sinks import Bound, ZooKeeperSink
from tenure.testing.engines import ZooKeeperEnsemble
from tests.sinks.repairs import WHY, Place, check_command, check_race, check_repair, refused_in_one_line


async def write(sink: Any, term: Bound) -> None:
    await sink.bind(term).create("/book-", b"x", sequential=True)


def place_at(ensemble: ZooKeeperEnsemble, fence: str) -> Place:
    return Place(ensemble.url, f"repair/{fence}", lambda verify=None: ZooKeeperSink(ensemble.url, verify=verify), write)


def test_a_fence_is_lowered_in_one_step(ensemble: ZooKeeperEnsemble) -> None:
    asyncio.run(check_repair(place_at(ensemble, "story")))


def test_by_the_command_line(ensemble: ZooKeeperEnsemble) -> None:
    check_command(place_at(ensemble, "command"))


def test_of_many_at_once_one_does_it(ensemble: ZooKeeperEnsemble) -> None:
    asyncio.run(check_race(place_at(ensemble, "many")))


def test_what_cannot_be_asked_is_told_in_one_line(ensemble: ZooKeeperEnsemble) -> None:
    lower = ("books", "--was", "9", "--to", "7", "--why", WHY)
    dead = "zookeeper://me:geheim@127.0.0.1:1"
    assert "was not sent" in refused_in_one_line(69, "lower", dead, *lower, secret="geheim")
    assert "has no fences" in refused_in_one_line(2, "show", ensemble.url, "--fences", "/nothing")
    assert "which is 0" in refused_in_one_line(2, "lower", ensemble.url, *lower, "--fences", "/nothing")

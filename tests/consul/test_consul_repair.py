"""A fence in Consul is lowered by one transaction, with its record."""

import asyncio
from typing import Any

from tenure.sinks import Bound, ConsulSink
from tenure.testing.engines import ConsulCluster
from tests.sinks.repairs import WHY, Place, check_command, check_race, check_repair, refused_in_one_line


async def write(sink: Any, term: Bound) -> None:
    await sink.bind(term).put("book", b"x")


def place_at(cluster: ConsulCluster, fence: str) -> Place:
    return Place(cluster.url, f"repair/{fence}", lambda verify=None: ConsulSink(cluster.url, verify=verify), write)


def test_a_fence_is_lowered_in_one_step(cluster: ConsulCluster) -> None:
    asyncio.run(check_repair(place_at(cluster, "story")))


def test_by_the_command_line(cluster: ConsulCluster) -> None:
    check_command(place_at(cluster, "command"))


def test_of_many_at_once_one_does_it(cluster: ConsulCluster) -> None:
    asyncio.run(check_race(place_at(cluster, "many")))


def test_what_cannot_be_asked_is_told_in_one_line(cluster: ConsulCluster) -> None:
    lower = ("books", "--was", "9", "--to", "7", "--why", WHY)
    dead = "consul://geheim@127.0.0.1:1"
    assert "was not sent" in refused_in_one_line(69, "lower", dead, *lower, secret="geheim")
    assert "has no fences" in refused_in_one_line(2, "show", cluster.url, "--fences", "nothing/")
    assert "which is 0" in refused_in_one_line(2, "lower", cluster.url, *lower, "--fences", "nothing/")

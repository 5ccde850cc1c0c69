"""What an Election may be made of, and what is refused in one line."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio
import pytest

from tenure.election import Election
from tenure.errors import ConfigError
from tenure.stores.base import Traits
from tenure.stores.memory import MemoryStore

TTL = 2.0
On = Callable[[Callable[[], Awaitable[None]]], None]


def test_an_advertised_address_tells_where_the_leader_is(on: On) -> None:
    async def test() -> None:
        store = MemoryStore()
        async with Election(store, "x", ttl=TTL, advertise="http://10.0.0.5:8080").once():
            incumbent = await Election(store, "x").incumbent()
            assert incumbent is not None
            assert incumbent.advertised == "http://10.0.0.5:8080"

    on(test)


def test_a_ttl_that_the_store_cannot_keep_is_refused_before_standing(on: On) -> None:
    async def test() -> None:
        class Slow(MemoryStore):
            @property
            def traits(self) -> Traits:
                return replace(super().traits, ttl_min_ns=5 * 10**9)

        with pytest.raises(ConfigError, match="between 5 and 604800 s for memory://"):
            async with Election(Slow(), "x", ttl=TTL).once():
                pytest.fail("it stood")

    on(test)


def test_one_election_object_is_one_candidate(on: On) -> None:
    async def test() -> None:
        election = Election(MemoryStore(), "x", ttl=TTL)
        async with election.once():
            with pytest.raises(ConfigError, match="stands already"):
                async with election.once():
                    pytest.fail("it stood twice")
            with pytest.raises(ConfigError, match="stands already"):
                await Election(election.desk.given, "x", holder=election.holder).lead(lambda _: anyio.sleep_forever())
        async with election.once() as term:
            assert term.token == 2

    on(test)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 10_000, "..", "a/../b", "/a", "a//b", " a", "a\x00", 7])
def test_an_absurd_name_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Election(MemoryStore(), name)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("address", ["a\nb", "x" * 2000, 7])
def test_an_absurd_address_is_refused_in_one_line(address: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Election(MemoryStore(), "x", advertise=address)
    assert "\n" not in str(refused.value)


def test_settings_that_contradict_are_refused() -> None:
    store = MemoryStore()
    for bad in ({"ttl": -1}, {"ttl": 8, "timing": Election(store, "x").timing}, {"on_overstay": "shrug"}):
        with pytest.raises(ConfigError):
            Election(store, "x", **bad)

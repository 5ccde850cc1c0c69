"""A leader says anew where it can be reached, and whoever observes sees it."""

from collections.abc import Awaitable, Callable
from contextlib import aclosing

import anyio
import anyio.lowlevel
import pytest

import tenure
from tenure import sync
from tenure.errors import ConfigError, Unreachable
from tenure.model import Ended, Grant
from tenure.stores.base import CanProclaim

On = Callable[[Callable[[], Awaitable[None]]], None]


def test_observers_see_what_a_leader_says_anew(on: On) -> None:
    async def test() -> None:
        store = tenure.MemoryStore()

        async def body(term: tenure.Tenure) -> list[str]:
            addresses = []
            async with aclosing(tenure.Election(store, "e", ttl=0.4).observe()) as seen:
                for address in ("", "http://10.0.0.6", "http://10.0.0.7"):
                    if address:
                        term.proclaim(address)
                    incumbent = await anext(seen)
                    addresses.append(incumbent.advertised if incumbent else "nobody")
            return addresses

        told = await tenure.Election(store, "e", ttl=4, advertise="http://10.0.0.5").lead(body)
        assert told == ["http://10.0.0.5", "http://10.0.0.6", "http://10.0.0.7"]

    on(test)


class HearsTheThirdTime(tenure.MemoryStore):
    count = 0

    async def proclaim(self, grant: Grant, address: str) -> Grant | Ended:
        self.count += 1
        if self.count < 3:
            raise Unreachable("memory://", "proclaim")
        return await super().proclaim(grant, address)


def test_it_is_said_again_until_the_store_has_heard_it(on: On) -> None:
    async def test() -> None:
        store = HearsTheThirdTime()
        async with tenure.Election(store, "e", ttl=0.8).once() as term:
            term.proclaim("here")
            async with aclosing(tenure.Election(store, "e", ttl=0.4).observe()) as seen:
                async for incumbent in seen:
                    if incumbent is not None and incumbent.advertised == "here":
                        break
        assert store.count == 3

    on(test)


def test_what_cannot_be_an_address_is_refused() -> None:
    with sync.Election(tenure.MemoryStore(), "e").once() as term, pytest.raises(ConfigError, match="printable"):
        term.proclaim("\n")


class Mute:
    """A store that has the five methods and no more."""

    def __init__(self) -> None:
        self._store = tenure.MemoryStore()
        for name in ("traits", "address", "identity", "claim", "renew", "release", "changed", "read"):
            setattr(self, name, getattr(self._store, name))


def test_a_store_that_cannot_is_named() -> None:
    store = Mute()
    assert not isinstance(store, CanProclaim)
    with (
        sync.Election(store, "e").once() as term,  # type: ignore[arg-type]  # its methods are set one by one
        pytest.raises(ConfigError, match="memory:// cannot change"),
    ):
        term.proclaim("here")


def test_nothing_is_said_for_a_tenure_that_is_over(on: On) -> None:
    async def test() -> None:
        store = tenure.MemoryStore()
        async with tenure.Election(store, "e").once() as first:
            pass
        async with tenure.Election(store, "e", advertise="second").once():
            first.proclaim("first")
            await anyio.lowlevel.checkpoint()
            incumbent = await tenure.Election(store, "e").incumbent()
            assert incumbent is not None
            assert incumbent.advertised == "second"

    on(test)

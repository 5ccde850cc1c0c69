"""A host that does not exist and a port on which nobody listens: every client says so, and what to do about it."""

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any

import pytest

from tenure.clients.unreached import by_what_they_did, nobody_listens
from tenure.errors import Unreachable
from tenure.model import Bid, Holder
from tenure.stores.opening import make_store

URLS = [
    "consul://engine.example:1",
    "etcd://engine.example:1",
    "mysql://user@engine.example:1/db",
    "postgresql://user@engine.example:1/db",
    "redis://engine.example:1",
    "redis+sentinel://engine.example:1/service",
    "zookeeper://engine.example:1",
]


class Unknown(asyncio.SelectorEventLoop):
    """Knows no host."""

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, f"{host}:{port} is not known")


class Several(asyncio.SelectorEventLoop):
    """Knows several addresses of every host, as most systems do of ``localhost``."""

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        assert host == "engine.example"
        addresses = "127.0.0.1", "127.0.0.2"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]


def told(url: str, loop: Callable[[], asyncio.AbstractEventLoop]) -> str:
    async def story() -> str:
        with pytest.raises(Unreachable) as caught:
            async with make_store(url, {}, accept_best_effort=True) as store:
                await store.claim(Bid("office", Holder.fresh(), 1, 10**10))
        return caught.value.detail

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(story())


@pytest.mark.parametrize("url", URLS)
def test_a_host_that_does_not_exist_is_told_with_what_to_check(url: str) -> None:
    assert "no such host: check its name" in told(url, Unknown)


@pytest.mark.parametrize("url", URLS)
def test_a_port_that_is_closed_at_every_address_is_told_with_what_to_check(url: str) -> None:
    line = told(url, Several)
    assert "listen" in line
    assert "is the server running, and is that its" in line or "started there?" in line


def test_a_host_of_whose_addresses_one_leads_nowhere_is_not_said_to_refuse() -> None:
    said = [f"[Errno {number}] Connect call failed" for number in (errno.ECONNREFUSED, errno.ENETUNREACH)]
    assert not nobody_listens(OSError(f"Multiple exceptions: {', '.join(said)}"))
    assert not nobody_listens(OSError(errno.ENETUNREACH, "Network is unreachable"))
    assert not nobody_listens(OSError("something else"))
    assert nobody_listens(OSError(f"Multiple exceptions: {said[0]}, {said[0]}"))


def test_servers_of_which_the_same_is_to_be_said_are_named_together() -> None:
    tried = [("a:1", "nobody listens"), ("b:1", "no such host"), ("c:1", "nobody listens")]
    assert by_what_they_did(tried) == "a:1, c:1: nobody listens; b:1: no such host"

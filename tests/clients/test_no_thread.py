"""A system that gives no thread for looking up a host's name has a server that is not reached: it is tried again later."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tenure.errors import Unreachable
from tenure.model import Bid, Holder
from tenure.stores.opening import make_store

NONE_LEFT = "can't start new thread"


class NoThreads(ThreadPoolExecutor):
    """Says what Python says then."""

    def submit(self, _: Callable[..., Any], /, *__: Any, **___: Any) -> Future[Any]:
        raise RuntimeError(NONE_LEFT)


@pytest.mark.parametrize(
    "url",
    [
        "consul://engine.example",
        "etcd://engine.example",
        "mysql://user@engine.example/db",
        "postgresql://user@engine.example/db",
        "redis://engine.example",
        "redis+sentinel://engine.example/service",
        "zookeeper://engine.example",
    ],
)
def test_without_a_thread_to_look_up_its_name_a_server_is_not_reached(url: str) -> None:
    async def story() -> None:
        asyncio.get_running_loop().set_default_executor(NoThreads())
        with pytest.raises(Unreachable, match=NONE_LEFT):
            async with make_store(url, {}, accept_best_effort=True) as store:
                await store.claim(Bid("office", Holder.fresh(), 1, 10**10))

    asyncio.run(story())

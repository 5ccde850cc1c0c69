"""Sinks in MySQL keep the contract, with each driver, with the guard alone, and with triggers below."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tenure.testing import SINK_CONTRACT, check_sink_promise
from tenure.testing.engines import MariaDbCluster
from tests.sinks.mysql_rig import AsyncGuardRig, AsyncmyRig, GuardRig, PyMySQLRig, StepsRig, TriggerRig


@pytest.mark.parametrize("promise", SINK_CONTRACT)
@pytest.mark.parametrize("rig", [AsyncmyRig, AsyncGuardRig, GuardRig, PyMySQLRig, StepsRig, TriggerRig])
def test_each_promise_is_kept(rig: type[AsyncmyRig], promise: str, mariadb: MariaDbCluster) -> None:
    @asynccontextmanager
    async def make() -> AsyncIterator[AsyncmyRig]:
        yield rig(mariadb)

    asyncio.run(check_sink_promise(promise, make))

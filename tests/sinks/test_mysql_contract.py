"""Sinks in MySQL keep the contract, with each driver and with triggers below."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tenure.testing import SINK_CONTRACT, ContractBroken, check_sink_promise
from tenure.testing.engines import MariaDbCluster
from tests.sinks.mysql_rig import AsyncmyRig, GuardRig, PyMySQLRig, TriggerRig


@pytest.mark.parametrize("rig", [AsyncmyRig, PyMySQLRig, GuardRig, TriggerRig])
def test_every_promise_is_kept(rig: type[AsyncmyRig], mariadb: MariaDbCluster) -> None:
    @asynccontextmanager
    async def make() -> AsyncIterator[AsyncmyRig]:
        yield rig(mariadb)

    async def broken() -> list[str]:
        told = []
        for name in SINK_CONTRACT:
            try:
                await check_sink_promise(name, make)
            except ContractBroken as error:
                told.append(str(error))
        return told

    assert asyncio.run(broken()) == []

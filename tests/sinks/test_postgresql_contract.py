"""Sinks in PostgreSQL keep the contract, with each driver and with triggers below."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tenure.testing import SINK_CONTRACT, ContractBroken, check_sink_promise
from tenure.testing.engines import PostgresCluster
from tests.sinks.postgresql_rig import AsyncpgRig, AsyncPsycopgRig, GuardRig, PsycopgRig, TriggerRig


@pytest.mark.parametrize("rig", [AsyncpgRig, AsyncPsycopgRig, PsycopgRig, GuardRig, TriggerRig])
def test_every_promise_is_kept(rig: type[AsyncpgRig], postgresql: PostgresCluster) -> None:
    @asynccontextmanager
    async def make() -> AsyncIterator[AsyncpgRig]:
        yield rig(postgresql)

    async def broken() -> list[str]:
        told = []
        for name in SINK_CONTRACT:
            try:
                await check_sink_promise(name, make)
            except ContractBroken as error:
                told.append(str(error))
        return told

    assert asyncio.run(broken()) == []

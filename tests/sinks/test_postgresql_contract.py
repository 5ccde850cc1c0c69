"""Sinks in PostgreSQL keep the contract, with each driver, with the guard alone, and with triggers below."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tenure.testing import SINK_CONTRACT, check_sink_promise
from tenure.testing.engines import PostgresCluster
from tests.sinks.postgresql_rig import AsyncpgRig, AsyncPsycopgRig, GuardRig, PsycopgRig, TriggerRig


@pytest.mark.parametrize("promise", SINK_CONTRACT)
@pytest.mark.parametrize("rig", [AsyncpgRig, AsyncPsycopgRig, GuardRig, PsycopgRig, TriggerRig])
def test_each_promise_is_kept(rig: type[AsyncpgRig], promise: str, postgresql: PostgresCluster) -> None:
    @asynccontextmanager
    async def make() -> AsyncIterator[AsyncpgRig]:
        yield rig(postgresql)

    asyncio.run(check_sink_promise(promise, make))

"""Sinks that ask a real etcd who is in office: what it did not grant raises no fence, and neither does its silence."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from anyio import to_thread

from tenure import Election, granted_by, open_store
from tenure.errors import StoreError, UnverifiedToken
from tenure.model import Token
from tenure.sinks import Bound, EtcdSink, SQLiteSink
from tenure.testing.engines import EtcdCluster

FORGED = Token(2**62)


async def sealed(sink: SQLiteSink, term: Bound) -> None:
    """Seal, and ask again while the cluster comes back, as an election does."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await sink.seal(term.fence, Token(term.token))
            except StoreError:
                continue


def test_the_leader_is_confirmed_and_a_forged_token_is_refused_and_counted(cluster: EtcdCluster) -> None:
    key = b"granted-by/x"

    async def run() -> None:
        # The sink asks by a connection of its own, as a service does that is not the leader.
        async with (
            open_store(cluster.url) as store,
            open_store(cluster.url) as asked,
            EtcdSink(cluster.url, verify=granted_by(asked)) as sink,
        ):
            async with Election(store, "granted-by/office").once([sink]) as term:
                await sink.bind(term).put(key, b"by the leader")
                forged = SimpleNamespace(fence=term.fence, token=FORGED)
                with pytest.raises(UnverifiedToken, match=f"the highest seen is {term.token}"):
                    await sink.seal(forged.fence, FORGED)
                with pytest.raises(UnverifiedToken):
                    await sink.bind(forged).put(key, b"forged")
                await sink.bind(term).put(key, b"by the leader still")
                assert (sink.refused.stale, sink.refused.unverified) == (0, 2)
            async with Election(store, "granted-by/office").once([sink]) as term:
                await sink.bind(term).put(key, b"by the next")
            assert (sink.refused.stale, sink.refused.unverified) == (0, 2)

    asyncio.run(run())
    assert cluster.ctl("get", key.decode(), "--print-value-only").strip() == "by the next"


def test_a_fence_is_that_of_one_cluster_and_one_election_however_its_url_is_written(
    cluster: EtcdCluster, tmp_path: Path
) -> None:
    async def run() -> None:
        async with (
            open_store(f"{cluster.url}/team") as store,
            open_store(cluster.url) as whole,
            open_store(f"{cluster.url}/others") as others,
            open_store(f"sqlite:///{tmp_path}/elections.db") as elsewhere,
            Election(store, "spelling").once() as term,
        ):
            for asked, is_granted in ((store, True), (whole, True), (others, False), (elsewhere, False)):
                verify = granted_by(asked)
                assert await to_thread.run_sync(verify, term.fence, Token(term.token)) is is_granted
                assert not await to_thread.run_sync(verify, term.fence, Token(term.token + 1))

    asyncio.run(run())


def test_a_cluster_that_is_silent_confirms_nobody_and_raises_no_fence(cluster: EtcdCluster, tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(cluster.url) as store:
            with SQLiteSink(tmp_path / "ledger.db", verify=granted_by(store, within=1)) as sink:
                async with Election(store, "silent", ttl=60).once() as term:
                    for node in cluster.nodes:
                        node.pause()
                    try:
                        with pytest.raises(StoreError):
                            await sink.seal(term.fence, Token(term.token))
                    finally:
                        for node in cluster.nodes:
                            node.resume()
                    assert (sink.refused.stale, sink.refused.unverified) == (0, 0)
                    await to_thread.run_sync(cluster.leader)
                    await sealed(sink, term)

    asyncio.run(run())

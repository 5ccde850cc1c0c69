"""A snapshot that is restored rewinds the revisions, which are our tokens. What is promised then, and what is noticed.

| after the restore | an open store | a sink with a fence |
|---|---|---|
| same cluster id | refuses: the cluster went back | refuses the lower tokens |
| another cluster id | refuses: it was replaced | knows nothing of the new fence |
| revisions bumped, same id | goes on | accepts: tokens are larger |

A process that starts after the restore cannot know of it. Only the fence, or the bumped revisions, keep order then.
"""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tenure.errors import OutcomeUnknown, Refused, StaleToken, StoreError, Unreachable
from tenure.model import Grant, Token
from tenure.sinks.sqlite import SQLiteSink
from tenure.stores.etcd import from_url
from tenure.stores.etcd.store import EtcdStore
from tenure.testing.engines import Binary, EtcdCluster
from tests.etcd.etcd_faults import bid_of, now_ns, play


@pytest.fixture
def lone(etcd_binary: Binary | None) -> Iterator[EtcdCluster]:
    with EtcdCluster(binary=etcd_binary) as cluster:
        yield cluster


def save(cluster: EtcdCluster, path: Path) -> None:
    run(cluster.binary.tool, f"--endpoints={cluster.endpoints[0]}", "snapshot", "save", str(path))


def restore(cluster: EtcdCluster, path: Path, token: str, *options: str) -> None:
    """Stop the cluster, and start it anew with what the snapshot holds."""
    for node in cluster.nodes:
        node.stop()
    beside = Path(cluster.binary.tool).with_name("etcdutl")  # Before 3.5 it was a part of etcdctl.
    tool = str(beside) if beside.exists() else cluster.binary.tool
    peers = {node.name: f"http://{node.host}:{node.ports[1]}" for node in cluster.nodes}
    for node in cluster.nodes:
        (node.folder / "data").rename(node.folder / f"data-before-{now_ns()}")
        run(
            tool,
            *("snapshot", "restore", str(path), f"--data-dir={node.folder / 'data'}", f"--name={node.name}"),
            f"--initial-cluster={','.join(f'{name}={url}' for name, url in peers.items())}",
            f"--initial-advertise-peer-urls={peers[node.name]}",
            f"--initial-cluster-token={token}",
            *options,
        )
    for node in cluster.nodes:
        node.launch()
    cluster.wait_until_serving(cluster.nodes)


def run(*command: str) -> None:
    answer = subprocess.run(command, env={"ETCDCTL_API": "3"}, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


async def serve(store: EtcdStore, sink: SQLiteSink, name: str, count: int) -> list[int]:
    """Hold ``count`` tenures one after the other, each with its seal, and return their tokens."""
    tokens: list[int] = []
    for _ in range(count):
        bid = bid_of(name)
        while not isinstance(grant := await store.claim(bid), Grant):
            await store.changed(grant)
        await sink.seal(f"{store.identity}/{name}", grant.token)
        await store.release(grant.bid)
        tokens.append(grant.token)
    return tokens


async def asked_of(store: EtcdStore, name: str) -> StoreError:
    """Ask until the cluster has answered: a restart costs a connection or two."""
    while True:
        try:
            await store.claim(bid_of(name))
        except Refused as refused:
            return refused
        except StoreError:
            continue


def test_after_a_restore_that_rewinds_an_open_store_refuses_and_a_fence_holds(
    lone: EtcdCluster, tmp_path: Path
) -> None:
    async def story() -> None:
        snapshot, token = tmp_path / "snapshot", lone.folder.name
        with SQLiteSink(tmp_path / "sink.db") as sink:
            async with from_url(lone.url) as store:
                await serve(store, sink, "x", 1)
                await asyncio.to_thread(save, lone, snapshot)
                before = await serve(store, sink, "x", 10)
                identity = store.identity
                await asyncio.to_thread(restore, lone, snapshot, token)
                told = await asked_of(store, "x")
                assert "the cluster went back from revision" in str(told)
                assert "restored snapshot" in str(told)
                with pytest.raises(Refused, match="went back"):
                    await store.read("x")
            async with from_url(lone.url) as fresh:
                # It starts afterwards and cannot know. Its token was given out before, and the fence has seen larger ones.
                assert fresh.identity == identity
                with pytest.raises(StaleToken) as stale:
                    await serve(fresh, sink, "x", 1)
                assert stale.value.token < stale.value.highest == before[-1]

    play(story())


def test_after_a_restore_as_another_cluster_an_open_store_refuses_and_fences_begin_anew(tmp_path: Path) -> None:
    async def story() -> None:
        snapshot = tmp_path / "snapshot"
        with SQLiteSink(tmp_path / "sink.db") as sink:
            async with from_url(newest.url) as store:
                await asyncio.to_thread(save, newest, snapshot)
                before = await serve(store, sink, "x", 10)
                identity = store.identity
                await asyncio.to_thread(restore, newest, snapshot, "another-token")
                told = await asked_of(store, "x")
                assert "was replaced by cluster" in str(told)
            async with from_url(newest.url) as fresh:
                assert fresh.identity != identity
                (after,) = await serve(fresh, sink, "x", 1)
                assert after < before[-1]  # Nobody could compare them: the fence has the name of the cluster in it.
                with pytest.raises(StaleToken):
                    await sink.seal(f"{identity}/x", Token(after))

    with EtcdCluster() as newest:
        play(story())


def test_after_a_restore_with_bumped_revisions_tokens_rise_and_an_open_store_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        snapshot, token = tmp_path / "snapshot", newest.folder.name
        with SQLiteSink(tmp_path / "sink.db") as sink:
            async with from_url(newest.url) as store:
                await asyncio.to_thread(save, newest, snapshot)
                before = await serve(store, sink, "x", 10)
                bump = ("--bump-revision=1000000", "--mark-compacted")
                await asyncio.to_thread(restore, newest, snapshot, token, *bump)
                async with from_url(newest.url) as fresh:
                    after = await serve(fresh, sink, "x", 1)
                assert after > before
                grant: object = None
                while not isinstance(grant, Grant):
                    with suppress(OutcomeUnknown, Unreachable):
                        grant = await store.claim(bid_of("x"))
                assert grant.token > after[-1]

    with EtcdCluster() as newest:
        if tuple(map(int, newest.binary.version.split("."))) < (3, 6):
            pytest.skip("etcd can bump revisions from 3.6 on")
        play(story())

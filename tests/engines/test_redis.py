"""Servers of Redis: replicas follow, Sentinels promote, and servers that know nothing of each other stay so."""

from pathlib import Path

import pytest

from tenure.testing.engines import EngineFailed, RedisCluster, RedisSentinels, Tls
from tenure.testing.engines.processes import wait_for


def test_replicas_follow_a_primary_and_refuse_writes() -> None:
    with RedisCluster(2) as cluster:
        primary, replica = cluster.nodes
        assert cluster.leader() is primary
        assert cluster.url == f"redis://{primary.endpoint}"
        cluster.ctl("SET", "key", "here")
        assert wait_for(lambda: cluster.ctl("GET", "key", node=replica) == "here", 30)
        with pytest.raises(EngineFailed, match="READONLY"):
            cluster.ctl("SET", "key", "there", node=replica)


def test_a_killed_server_comes_back_with_its_data_only_if_it_writes_them_down() -> None:
    for persistent, told in ((True, "here"), (False, "")):
        with RedisCluster(persistent=persistent) as cluster:
            cluster.ctl("SET", "key", "here")
            cluster.nodes[0].kill()
            cluster.nodes[0].start()
            assert cluster.ctl("GET", "key") == told


def test_independent_servers_share_nothing() -> None:
    with RedisCluster(3, independent=True) as cluster:
        cluster.ctl("SET", "key", "here")
        assert [cluster.ctl("GET", "key", node=node) for node in cluster.nodes] == ["here", "", ""]
        assert cluster.url == f"redlock://{','.join(cluster.endpoints)}"
        cluster.nodes[1].pause()
        cluster.nodes[2].kill()
        cluster.mend()
        assert [cluster.serves(node) for node in cluster.nodes] == [True, True, True]


def test_sentinels_promote_a_replica_in_the_place_of_a_paused_primary() -> None:
    with RedisCluster(2) as cluster, RedisSentinels(cluster) as sentinels:
        old, replica = cluster.nodes
        assert sentinels.primary() == old.endpoint
        old.pause()
        assert wait_for(lambda: sentinels.promoted(old) is replica, 60)
        assert cluster.leader() is replica
        old.resume()
        assert cluster.leads(old)  # It does not know yet, and is told some ten seconds later.


def test_passwords_and_certificates_are_asked_for(tmp_path: Path) -> None:
    with RedisCluster(2, password="secret", tls=Tls(tmp_path)) as cluster:
        assert cluster.url.startswith("rediss://")
        assert cluster.ctl("PING") == "PONG"
        cluster.password = "wrong"
        with pytest.raises(EngineFailed, match="WRONGPASS"):
            cluster.ctl("PING")
        assert cluster.info(cluster.nodes[0], "replication") == ""

"""What a cluster of Consul has that others have not: tokens, and a shortest session."""

import json

import pytest

from tenure.testing.engines import ConsulCluster, EngineFailed


def test_every_server_knows_a_token_once_it_is_made_and_none_once_it_is_revoked() -> None:
    with ConsulCluster(acl=True) as cluster:
        token = cluster.token('key_prefix "ours" { policy = "write" }')
        for node in cluster.nodes:
            cluster.ctl("kv", "put", f"-token={token}", "ours", "1", node=node)
            with pytest.raises(EngineFailed, match="lacks permission 'key:write'"):
                cluster.ctl("kv", "put", f"-token={token}", "theirs", "1", node=node)
        cluster.revoke(token)
        for node in cluster.nodes:
            with pytest.raises(EngineFailed, match="ACL not found"):
                cluster.ctl("kv", "put", f"-token={token}", "ours", "2", node=node)
        assert cluster.ctl("kv", "get", "ours") == "1\n"
        with pytest.raises(EngineFailed, match="Permission denied: anonymous token"):
            cluster.ctl("kv", "get", "-token=anonymous", "ours")


@pytest.mark.parametrize(("least_s", "said"), [(None, "must be between [10s=24h0m0s]"), (2, "must be between [2s=")])
def test_the_shortest_session_is_the_engines_own_unless_it_is_set(least_s: int | None, said: str) -> None:
    with ConsulCluster(1, session_ttl_min_s=least_s) as cluster:
        with pytest.raises(EngineFailed) as caught:
            cluster.api("PUT", "/v1/session/create", {"TTL": "1s"})
        assert caught.value.what == "was answered with 500"
        assert said in caught.value.tail
        assert json.loads(cluster.api("PUT", "/v1/session/create", {"TTL": f"{least_s or 10}s"}))["ID"]


def test_a_server_that_does_not_run_does_not_answer() -> None:
    with ConsulCluster(1) as cluster:
        cluster.nodes[0].kill()
        with pytest.raises(EngineFailed, match=r"^GET /v1/status/leader was answered with nothing"):
            cluster.api("GET", "/v1/status/leader")

"""``tenure doctor`` on real Consuls, whole and broken."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.user import at_home

from tenure.testing.engines import ConsulCluster, Tls

DEADLINE_S = 120.0


def doctor(home: Path, url: str, *options: str) -> tuple[int, list[dict[str, Any]]]:
    command = [sys.executable, "-m", "tenure", "doctor", "--store", url, "--json", *options]
    run = subprocess.run(command, env=at_home(home), capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert run.stderr == ""
    findings: list[dict[str, Any]] = json.loads(run.stdout)["findings"]
    return run.returncode, findings


def told_of(findings: list[dict[str, Any]], subject: str) -> list[tuple[str, str]]:
    return [(one["level"], one["detail"]) for one in findings if one["subject"] == subject]


def not_good(findings: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(one["level"], one["subject"]) for one in findings if one["level"] != "good"}


def test_a_healthy_consul_is_found_so_and_the_trial_leaves_nothing_in_it(tmp_path: Path, consul: ConsulCluster) -> None:
    code, findings = doctor(tmp_path, consul.url, "--ttl", "8s")
    assert (code, not_good(findings)) == (0, set())
    assert told_of(findings, "members") == [("good", "3 of the 3 that the URL names answer")]
    assert told_of(findings, "quorum") == [("good", "3 voting members: 1 may fail")]
    assert told_of(findings, "version") == [("good", consul.binary.version)]
    ((_, clock),) = told_of(findings, "clock")
    assert re.match(r"the engine's clock is \d\.\d s (ahead of|behind) ours", clock)
    assert told_of(findings, "lease") == [("good", "the engine gives 1 s or more, so a ttl of 8 s is kept")]
    assert told_of(findings, "lock-delay") == [("good", "15 s, and 0 s for elections with sinks; lock_delay= sets it")]
    ((_, connections),) = told_of(findings, "connections")
    assert connections.startswith("an agent takes 200 connections from one address; a process keeps one for each")
    late = "the office of a leader that died is free at most one more ttl and 16 s after the end of its lease"
    assert ("good", late) in told_of(findings, "promise")
    keys = json.loads(consul.api("GET", "/v1/kv/?keys"))
    assert not [key for key in keys if "doctor" in key]
    sessions = consul.api("GET", "/v1/session/list")
    assert "doctor" not in sessions


def test_a_lock_delay_and_a_ttl_of_ones_own_are_told(tmp_path: Path, consul: ConsulCluster) -> None:
    _, findings = doctor(tmp_path, f"{consul.url}?lock_delay=2.5", "--ttl", "20s")
    assert told_of(findings, "lock-delay") == [("good", "2.5 s, as lock_delay= says")]
    assert any("one more ttl and 3.5 s" in told for _, told in told_of(findings, "promise"))


def test_a_consul_as_shipped_gives_no_lease_of_the_doctors_own_length(tmp_path: Path) -> None:
    with ConsulCluster(1) as cluster:
        code, findings = doctor(tmp_path, cluster.url, "--ttl", "8s")
        assert code == 1
        assert ("bad", "lease") in not_good(findings)
        assert ("bad", "a ttl of 8 s is not given, only from 10 s to 1 days") in told_of(findings, "lease")
        assert ("warning", "quorum") in not_good(findings)
        code, findings = doctor(tmp_path, cluster.url, "--ttl", "10s")
        assert (code, not_good(findings)) == (0, {("warning", "quorum")})


def test_servers_that_are_slow_to_replace_their_leader_and_an_agent_with_few_connections_are_warned_of(
    tmp_path: Path,
) -> None:
    slow = ["-hcl=performance { raft_multiplier = 5 }", "-hcl=limits { http_max_conns_per_client = 150 }"]
    with ConsulCluster(1, session_ttl_min_s=1, options=slow) as cluster:
        code, findings = doctor(tmp_path, cluster.url, "--ttl", "29s")
        warned = {("warning", "quorum"), ("warning", "failover"), ("warning", "connections")}
        assert (code, not_good(findings)) == (0, warned)
        ((_, told),) = told_of(findings, "failover")
        assert told == "the servers notice after 5 s that their leader is gone: a ttl of 29 s may end first"
        _, findings = doctor(tmp_path, cluster.url, "--ttl", "30s")
        assert told_of(findings, "failover") == []


@pytest.mark.parametrize("killed_count", [1, 2])
def test_servers_that_are_gone_are_named_and_without_a_quorum_elections_do_not_work(
    tmp_path: Path, killed_count: int
) -> None:
    with ConsulCluster(3, session_ttl_min_s=1) as cluster:
        for node in cluster.nodes[:killed_count]:
            node.kill()
        if killed_count == 1:
            cluster.leader()
        code, findings = doctor(tmp_path, cluster.url)
        ((level, members),) = told_of(findings, "members")
        assert level == "warning"
        for node in cluster.nodes[:killed_count]:
            assert f"{node.endpoint}: nobody listens on that port" in members
        assert code == (0 if killed_count == 1 else 1)
        assert (("bad", "quorum") in not_good(findings)) == (killed_count == 2)


def test_rights_that_are_missing_are_a_finding_and_an_agents_own_are_not_needed(tmp_path: Path) -> None:
    rules = 'key_prefix "" { policy = "write" } session_prefix "" { policy = "write" }'
    with ConsulCluster(1, acl=True, session_ttl_min_s=1) as cluster:
        enough = cluster.url.replace("://", f"://{cluster.token(rules)}@")
        code, findings = doctor(tmp_path, enough)
        assert (code, not_good(findings)) == (0, {("warning", "quorum")})
        assert told_of(findings, "version") == [("good", "not told: that takes agent:read")]
        reader = cluster.token('key_prefix "" { policy = "read" }')
        code, findings = doctor(tmp_path, cluster.url.replace("://", f"://{reader}@"), "--ttl", "10s")
        assert code == 1
        ((level, office),) = told_of(findings, "office")
        assert level == "bad"
        assert "lacks permission session write" in office
        assert reader not in json.dumps(findings)


def test_the_end_of_a_certificate_is_told(tmp_path: Path) -> None:
    tls = Tls(tmp_path)
    with ConsulCluster(1, tls=tls, session_ttl_min_s=1) as cluster:
        _, findings = doctor(tmp_path, f"{cluster.url}?ca={tls.ca}")
        ((_, told),) = told_of(findings, "encryption")
        assert told.startswith(f"TLS; the certificate of {cluster.endpoints[0]} ends on ")

"""URLs that name several hosts: what is meant is found, and what cannot be meant is refused in one line."""

import pytest

from tenure.clients.address import ClusterURL, cluster_of
from tenure.errors import ConfigError

KNOWN = frozenset({"ca", "timeout"})


def test_hosts_ports_path_and_options_are_found() -> None:
    found = cluster_of("etcd://h1,h2:2380,[::1]:99,[fe80::1]/a/b?ca=%2Fetc%2Fca.pem&timeout=3", 2379, KNOWN)
    assert found == ClusterURL(
        scheme="etcd",
        endpoints=("h1:2379", "h2:2380", "[::1]:99", "[fe80::1]:2379"),
        path="a/b",
        options={"ca": "/etc/ca.pem", "timeout": "3"},
        user=None,
        password=None,
    )


def test_user_and_password_are_decoded_and_not_shown() -> None:
    found = cluster_of("etcd://ro%40ot:s%2Fcr%3Aet@h1", 2379, KNOWN)
    assert (found.user, found.password) == ("ro@ot", "s/cr:et")
    assert found.shown == "etcd://h1:2379"


def test_a_second_slash_belongs_to_the_path() -> None:
    assert cluster_of("etcd://h//a", 2379, KNOWN).path == "/a"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("etcd://", "no host"),
        ("etcd://h1,,h2", "no host"),
        ("etcd://h1:port", "no host"),
        ("etcd://::1", "no host"),
        ("etcd://h1:0", "port 0"),
        ("etcd://h1:65536", "port 65536"),
        ("etcd://h1,h1:2379", "twice"),
        ("etcd://h1#x", "fragment"),
        ("etcd://h1?cafile=x", "'cafile'"),
    ],
)
def test_what_cannot_be_meant_is_refused(url: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        cluster_of(url, 2379, KNOWN)


@pytest.mark.parametrize(
    "url",
    [
        "etcd://root:hunter2@h1:port",
        "etcd://root:hunter2?x@h1",
        "etcd://root:hunter2#x@h1",
        "etcd://root:hunter2/x@h1",
        "etcd://root:12/hunter2@h1",
        "etcd://root:hunter2℀@h1",
        "etcd://root:hunter2[@h1",
        "etcd://root:hunter2]@h1",
    ],
)
def test_a_refusal_shows_no_password(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        cluster_of(url, 2379, KNOWN)
    assert "hunter2" not in str(refused.value)


def test_the_parts_show_no_password() -> None:
    assert "hunter2" not in repr(cluster_of("etcd://root:hunter2@h1", 2379, KNOWN))

"""Whoever is not let in, or is at the wrong door, is told so in one line that names the fix, and no password in it."""

import asyncio
import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.errors import ConfigError, StoreError
from tenure.model import Bid, Grant, Holder
from tenure.plan.engines import shipped
from tenure.stores.opening import SCHEMES, make_store
from tenure.testing.engines import RedisCluster, RedisSentinels, Tls
from tenure.testing.engines.processes import wait_for

SECRET = "hunter2hunter2"


def refusal(url: str, **options: str) -> str:
    """Return what somebody is told who opens a store there and stands."""

    async def stand() -> None:
        async with make_store(url, options, accept_best_effort=True) as store:
            await store.claim(Bid("office", Holder.fresh(), 1, 10**10))

    with pytest.raises(StoreError) as told:
        asyncio.run(stand())
    text = str(told.value)
    assert "\n" not in text
    assert SECRET not in text
    assert "wrong-one" not in text
    return text


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """A primary and a replica that ask for a password, and speak TLS."""
    with RedisCluster(2, password=SECRET, tls=Tls(tmp_path_factory.mktemp("tls"))) as running:
        yield running


def at(cluster: RedisCluster, login: str, scheme: str = "rediss", node: int = 0) -> str:
    return f"{scheme}://{login}{cluster.nodes[node].endpoint}?ca={cluster.tls.ca if cluster.tls else ''}"


def test_who_has_the_password_and_the_authority_gets_in(locked: RedisCluster, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(f"{SECRET}\n")

    async def stand() -> Grant:
        url = f"{at(locked, '')}&password_file={tmp_path / 'password'}"
        async with make_store(url, {}, accept_best_effort=True) as store:
            assert SECRET not in f"{store.address} {store.identity} {store!r}"
            answer = await store.claim(Bid("office", Holder.fresh(), 1, 10**10))
            assert isinstance(answer, Grant)
            await store.release(answer.bid)
            return answer

    assert asyncio.run(stand()).token >= 1


def test_passwords_certificates_and_replicas_are_told_of(locked: RedisCluster) -> None:
    assert "the user or the password is wrong" in refusal(at(locked, ":wrong-one@"))
    assert "the server asks for a password" in refusal(at(locked, ""))
    assert "that is a replica" in refusal(at(locked, f":{SECRET}@", node=1))
    assert "write rediss://" in refusal(f"redis://:{SECRET}@{locked.nodes[0].endpoint}")
    assert locked.tls is not None
    wrong = f"rediss://:{SECRET}@{locked.nodes[0].endpoint}?ca={locked.tls.wrong_ca}"
    assert "certificate is not trusted" in refusal(wrong)


def test_a_user_with_too_few_rights_is_told_which_it_needs(locked: RedisCluster) -> None:
    for rights in (("+@all", "-@scripting"), ("+@connection", "+@scripting"), ("+@all", "-hset")):
        locked.ctl("ACL", "SETUSER", "poor", "reset", "on", f">{SECRET}", "~tenure:*", "&tenure:*", *rights)
        assert "ACL SETUSER name" in refusal(at(locked, f"poor:{SECRET}@"))
    locked.ctl("ACL", "SETUSER", "poor", "reset", "on", f">{SECRET}", "~other:*", "&tenure:*", "+@all")
    assert "ACL SETUSER name" in refusal(at(locked, f"poor:{SECRET}@"))


@pytest.mark.parametrize(
    "keys", ["~tenure:*", "~tenure:office:* ~tenure:token ~tenure:id ~tenure:elections ~tenure:standby:*"]
)
def test_the_rights_that_are_printed_are_enough(keys: str, locked: RedisCluster) -> None:
    rights = ["+@connection", "+@scripting", "+@read", "+@write", "+@pubsub", "+time", *keys.split(), "&tenure:*"]
    locked.ctl("ACL", "SETUSER", "enough", "reset", "on", f">{SECRET}", *rights)
    told = doctor(at(locked, f"enough:{SECRET}@"))
    assert told.returncode == 0, told.stdout + told.stderr
    assert "a standby is told of a release at once" in told.stdout
    assert "not told: that takes +info" in told.stdout
    assert SECRET not in told.stdout + told.stderr


def test_tls_at_a_port_without_it_and_the_wrong_kind_of_server(server: RedisCluster, tmp_path: Path) -> None:
    tls = Tls(tmp_path)
    assert "write redis:// instead" in refusal(f"rediss://{server.nodes[0].endpoint}?ca={tls.ca}")
    assert "that is no Sentinel" in refusal(f"redis+sentinel://{server.nodes[0].endpoint}/mymaster")
    with RedisSentinels(server, 1) as sentinels:
        encrypted = sentinels.url.replace("redis+", "rediss+")
        assert "write redis+sentinel:// instead" in refusal(f"{encrypted}?ca={tls.ca}")
        assert "that is a Sentinel" in refusal(f"redis://{sentinels.nodes[0].endpoint}")
        assert "knows of no primary nobody" in refusal(f"redis+sentinel://{sentinels.nodes[0].endpoint}/nobody")
    with RedisCluster(sharded=True) as sharded:
        assert "that is a Redis Cluster" in refusal(sharded.url)


def test_sentinels_may_have_a_password_of_their_own(server: RedisCluster, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(SECRET)

    async def name(url: str) -> str:
        async with make_store(url, {}, accept_best_effort=True) as store:
            identity: str = store.identity
            return identity

    with RedisSentinels(server, 1, password=SECRET) as sentinels:
        assert "asks for a password" in refusal(sentinels.url)
        url = f"{sentinels.url}?sentinel_password_file={tmp_path / 'password'}"
        assert asyncio.run(name(url)) == asyncio.run(name(server.url))


def test_sentinels_and_redlock_speak_tls_to_everybody_and_follow_a_failover(
    locked: RedisCluster, tmp_path: Path
) -> None:
    assert locked.tls is not None

    async def stand(url: str) -> Grant:
        async with make_store(url, {}, accept_best_effort=True) as store:
            answer = await store.claim(Bid("encrypted", Holder.fresh(), 1, 10**10))
            assert isinstance(answer, Grant), answer
            await store.release(answer.bid)
            return answer

    with RedisCluster(2, password=SECRET, tls=locked.tls) as servers, RedisSentinels(servers) as sentinels:
        login = sentinels.url.replace("://", f"://:{SECRET}@")
        url = f"{login}?ca={locked.tls.ca}"
        assert url.startswith("rediss+sentinel://")
        first = asyncio.run(stand(url))
        assert "certificate is not trusted" in refusal(f"{login}?ca={locked.tls.wrong_ca}")
        assert "write rediss+sentinel://" in refusal(login.replace("rediss+", "redis+"))
        assert servers.ctl("WAIT", "1", "30000") == "1"
        servers.nodes[0].kill()
        assert wait_for(lambda: sentinels.promoted(servers.nodes[0]) is not None, 60)
        assert asyncio.run(stand(url)).token == first.token + 1

    with RedisCluster(3, independent=True, tls=Tls(tmp_path)) as servers:
        assert servers.tls is not None
        assert servers.url.startswith("redlocks://")
        url = f"{servers.url}?ca={servers.tls.ca}"
        assert asyncio.run(stand(url)).token < asyncio.run(stand(url)).token
        assert "certificate is not trusted" in refusal(f"{servers.url}?ca={servers.tls.wrong_ca}")
        assert "write redlocks://" in refusal(servers.url.replace("redlocks", "redlock"))


class Web(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.recv(1024)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_a_server_of_another_kind_is_found_out() -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), Web) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        told = refusal(f"redis://127.0.0.1:{web.server_address[1]}")
        web.shutdown()
    assert "does not speak as Redis does" in told


def doctor(url: str, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tenure", "doctor", "--store", url, *(options or ("--accept-best-effort",))]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)


def test_the_doctor_tells_of_memory_persistence_and_replicas(locked: RedisCluster) -> None:
    url = at(locked, f":{SECRET}@")
    told = doctor(url).stdout
    assert "appendonly, appendfsync always" in told
    assert "set min-replicas-to-write 1" in told
    assert "best effort" in told
    assert "elections will work" in told
    locked.ctl("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
    locked.ctl("CONFIG", "SET", "appendfsync", "everysec")
    ill = doctor(url)
    locked.ctl("CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction")
    locked.ctl("CONFIG", "SET", "appendfsync", "always")
    assert "may forget the last second or two" in ill.stdout
    assert ill.returncode == 1
    assert "may throw away offices and the counter of tokens" in ill.stdout
    assert locked.ctl("SMEMBERS", "tenure:elections").split("\n") in (["office"], [""])  # Trials are cleared away.


def test_whoever_does_not_accept_best_effort_is_told_why_and_what_to_use() -> None:
    told = doctor(f"redis://:{SECRET}@127.0.0.1:1", "--json")
    assert told.returncode == 2
    assert told.stderr.count("\n") == 1
    assert "is best effort" in told.stderr
    assert "Use etcd://" in told.stderr
    assert "--accept-best-effort" in told.stderr
    assert SECRET not in told.stderr


BEST_EFFORT = {
    "redis": f"redis://:{SECRET}@h1",
    "rediss": f"rediss://:{SECRET}@h1",
    "redis+sentinel": f"redis+sentinel://:{SECRET}@h1,h2,h3/mymaster",
    "rediss+sentinel": f"rediss+sentinel://:{SECRET}@h1,h2,h3/mymaster",
    "redlock": f"redlock://:{SECRET}@h1,h2,h3",
    "redlocks": f"redlocks://:{SECRET}@h1,h2,h3",
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_whoever_opens_what_says_of_itself_that_it_is_best_effort_must_accept_that(scheme: str) -> None:
    says_so = bool(shipped(f"{scheme}://h").traits.best_effort)
    assert SCHEMES[scheme].best_effort == says_so == (scheme in BEST_EFFORT)
    if says_so:
        with pytest.raises(ConfigError, match="is best effort") as refused:
            make_store(BEST_EFFORT[scheme], {})
        assert SECRET not in str(refused.value)
        assert make_store(BEST_EFFORT[scheme], {}, accept_best_effort=True).traits.best_effort

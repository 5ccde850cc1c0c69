"""URLs of Redis: what is meant is found, and what cannot be meant is refused in one line without its password."""

from pathlib import Path

import pytest

from tenure.clients.redis.settings import settings_of
from tenure.errors import ConfigError
from tenure.stores.redis.judging import Server, info_in, judge_eviction, judge_persistence, judge_replicas

SECRET = "hunter2hunter2"


def test_every_part_of_a_url_is_found(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("watch\n")
    plain = settings_of("redis://h1")
    assert (plain.endpoints, plain.db, plain.prefix, plain.service, plain.user) == (("h1:6379",), 0, "tenure", "", "")
    named = settings_of(f"redis://ada:{SECRET}@h1:1/3?prefix=app&timeout=5")
    assert (named.endpoints, named.db, named.prefix, named.timeout_s) == (("h1:1",), 3, "app", 5.0)
    assert (named.user, named.password) == ("ada", SECRET)
    assert SECRET not in f"{named!r} {named.address}"
    watched = settings_of(f"redis+sentinel://:p@h1,h2:7,h3/mymaster/2?sentinel_password_file={tmp_path / 'secret'}")
    assert watched.endpoints == ("h1:26379", "h2:7", "h3:26379")
    assert (watched.service, watched.db, watched.password, watched.sentinel_password) == ("mymaster", 2, "p", "watch")
    assert settings_of("rediss://h1").tls is not None
    assert settings_of("rediss+sentinel://h1/m").tls is not None
    assert len(settings_of("redlock://h1,h2,h3,h4,h5").endpoints) == 5


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("redis://h1,h2", "names several servers"),
        ("redis://h1/zero", "no number of a database"),
        ("redis://h1/-1", "no number of a database"),
        ("redis://h1?prefix=", "prefix"),
        ("redis://h1?prefix=a%20b", "prefix"),
        ("redis://ada@h1", "a user but no password"),
        ("redis://h1?ca=/x", "write rediss://"),
        ("redis://h1?retry=3", "'retry'"),
        ("redis://h1?sentinel_user=x", "options of Sentinels"),
        ("redis+sentinel://h1,h2", "which primary"),
        ("redis+sentinel://h1/m?ca=/x", r"write rediss\+sentinel://"),
        ("redlock://h1,h2", "odd number from 3 to 9"),
        ("redlock://h1,h2,h3,h4", "leave one out"),
        ("redlock://h1,h1,h2", "names a host twice"),
        ("redlock://h1,h2,h3?ca=/x", "write redlocks://"),
        ("redis://h1?timeout=0", "timeout"),
    ],
)
def test_what_cannot_be_meant_is_refused(url: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as error:
        settings_of(url.replace("://h", f"://:{SECRET}@h", 1))
    assert SECRET not in str(error.value)


def test_a_server_that_may_forget_is_told_of() -> None:
    def judged(**info: str) -> list[str]:
        server = Server(info, {"appendfsync": info.pop("fsync", "")})
        return [str(judge_eviction("h", server).level), str(judge_persistence("h", server).level)]

    safe = {"maxmemory": "0", "maxmemory_policy": "allkeys-lru", "aof_enabled": "1", "fsync": "always"}
    assert judged(**safe) == ["good", "good"]
    assert judged(**{**safe, "maxmemory": "1048576"})[0] == "bad"
    assert judged(**{**safe, "maxmemory": "1048576", "maxmemory_policy": "volatile-ttl"})[0] == "bad"
    assert judged(**{**safe, "maxmemory": "1048576", "maxmemory_policy": "noeviction"})[0] == "good"
    assert judged(**{**safe, "fsync": "everysec"})[1] == "warning"
    assert judged(**{**safe, "aof_enabled": "0"})[1] == "warning"
    assert judged() == ["good", "good"]  # Not told: whoever may not ask is not warned of what nobody knows.
    assert str(judge_replicas(Server({"connected_slaves": "0"})).level) == "warning"
    assert "min-replicas" in judge_replicas(Server({"connected_slaves": "1"}, {"min-replicas-to-write": "0"})).advice
    assert info_in("# Server\r\nredis_version:7.0.15\r\n\r\n") == {"redis_version": "7.0.15"}

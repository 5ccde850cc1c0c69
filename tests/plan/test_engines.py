"""What is said of engines as shipped is what their adapters say themselves."""

from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from tenure.errors import ConfigError
from tenure.plan.engines import shipped
from tenure.stores.base import Expiry, Traits, Wake
from tenure.stores.consul.agent import traits_of as consul
from tenure.stores.opening import SCHEMES, make_store
from tenure.stores.redis.lookout import _LOOK_MAX_S, _LOOKS_PER_TTL
from tenure.stores.sql.lookout import pause_s
from tenure.stores.sqlite.lookout import _LOOK_ANYWAY_S
from tenure.stores.zookeeper.ensemble import traits_of as zookeeper

URLS = {
    "memory": "memory://",
    "sqlite": "sqlite:////tmp/nowhere.db",
    "etcd": "etcd://h",
    "redis": "redis://h",
    "redlock": "redlock://a,b,c",
    "postgresql": "postgresql://u@h/d",
    "mysql": "mysql://u@h/d",
    "mariadb": "mariadb://u@h/d",
}
TICK_MS = 2000


def plain(traits: Traits) -> Traits:
    """Without the words: these are the adapter's own."""
    return replace(traits, token_source="", best_effort="yes" if traits.best_effort else "")


@pytest.mark.parametrize("url", URLS.values())
def test_what_is_known_by_name_is_what_the_adapter_says(url: str) -> None:
    store: Any = make_store(url, {}, accept_best_effort=True)
    assert plain(shipped(url).traits) == plain(store.traits)


@pytest.mark.parametrize("url", ["postgresql://u@h/d?expiry=observer", "mysql://u@h/d?expiry=observer&poll=3"])
def test_options_of_the_url_that_change_it_are_known(url: str) -> None:
    store: Any = make_store(url, {})
    assert shipped(url).traits.expiry is Expiry.OBSERVER
    assert plain(shipped(url).traits) == plain(store.traits)


def test_engines_that_have_to_be_asked_are_known_as_they_are_shipped() -> None:
    assert plain(shipped("consul://h").traits) == plain(consul(None, None))
    assert plain(shipped("consul://h", fenced=True).traits) == plain(consul(None, 0))
    assert plain(shipped("consul://h?lock_delay=5").traits) == plain(consul(None, 5 * 10**9))
    assert plain(shipped("zookeeper://h").traits) == plain(zookeeper("", TICK_MS, 20 * TICK_MS))
    kubernetes = import_module("tenure.stores.kubernetes.leases").traits_of(by_version=False)
    assert plain(shipped("kubernetes://ns").traits) == plain(kubernetes)


POLLS = replace(shipped("mysql://u@h/d").traits, wake=Wake.POLL)


@pytest.mark.parametrize("url", ["mysql://u@h/d", "mysql://u@h/d?poll=3", "postgresql://u@h/d?poll=3"])
def test_how_often_standbys_of_sql_databases_look_is_what_their_url_says(url: str) -> None:
    poll_s = make_store(url, {}).sql.poll_s
    assert shipped(url).looks.within_s(POLLS, 60 * 10**9) == pause_s(poll_s, [], 1.0) == poll_s
    # The look at the end of the lease that was seen comes sooner.
    assert shipped(url).looks.within_s(POLLS, 10**9) == pause_s(poll_s, [10**9], 1.0)


def test_how_often_other_standbys_look_is_what_their_lookouts_do() -> None:
    assert shipped("sqlite:////f").look_within_s(60 * 10**9) == _LOOK_ANYWAY_S
    for ttl_s in (0.8, 4, 60):
        assert shipped("redlock://a,b,c").look_within_s(round(ttl_s * 1e9)) == min(ttl_s / _LOOKS_PER_TTL, _LOOK_MAX_S)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_standbys_look_where_nobody_tells_them_and_only_there(scheme: str) -> None:
    known = shipped(f"{scheme}://h")
    assert (known.look_within_s(10 * 10**9) > 0) == (known.traits.wake is Wake.POLL)


def test_every_scheme_is_known() -> None:
    assert all(shipped(f"{scheme}://h").name for scheme in SCHEMES)


@pytest.mark.parametrize(
    "url", ["nowhere://h", "etcd", "", "etcd://[", "consul://h?lock_delay=soon", "mysql://h/d?poll=soon"]
)
def test_what_is_no_engine_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        shipped(url)


def test_a_password_in_a_url_that_is_refused_is_not_shown() -> None:
    with pytest.raises(ConfigError) as refused:
        shipped("nowhere://ada:hunter2@h")
    assert "hunter2" not in str(refused.value)

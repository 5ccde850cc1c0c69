"""What each engine promises as shipped, by the scheme of its URL: a plan is made before there is anything to connect to.

The adapters know this themselves, but to import one takes longer than the whole plan does, and two of them have to ask their
engine. So it is said again here; ``tests/plan/test_engines.py`` compares it with what the adapters say. An engine that was set
otherwise says so when it is asked: ``tenure plan --connect``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from tenure.errors import ConfigError, redact
from tenure.stores.base import Expiry, Traits, Wake
from tenure.stores.opening import SCHEMES

_S: Final = 10**9
_WEEK_NS: Final = 7 * 24 * 3600 * _S
_CONSUL_LATE_NS: Final = _S
_CONSUL_LOCK_DELAY_NS: Final = 15 * _S
_ZOOKEEPER_TICK_NS: Final = 2 * _S  # tickTime=2000, as in zoo_sample.cfg
_SQL_POLL_S: Final = 0.5
_LOSES: Final = "a failover, a restart without data or a jump of its clock can make two leaders at once"


@dataclass(frozen=True, slots=True)
class Looks:
    """How often a standby looks whether an office is free, at a store that tells nobody of a release.

    Only a release waits for it. Whoever looks is told when the lease would end, and looks again by then, if not sooner.
    """

    every_s: float = 0.0  # at the latest
    per_ttl: int = 1  # and at least so often in a ttl

    def within_s(self, traits: Traits, ttl_ns: int) -> float:
        """Return how long a release may go unseen; 0: standbys are told of it."""
        return min(self.every_s, ttl_ns / 1e9 / self.per_ttl) if traits.wake is Wake.POLL else 0.0


@dataclass(frozen=True, slots=True)
class Shipped:
    """An engine as it is shipped."""

    name: str
    traits: Traits
    why_late: str  # why a dead leader's office stays taken beyond its ttl; empty: it does not
    remedy: str = ""  # what makes that shorter; empty: nothing does
    looks: Looks = Looks()

    def look_within_s(self, ttl_ns: int) -> float:
        """Return how long a release may go unseen; 0: standbys are told of it."""
        return self.looks.within_s(self.traits, ttl_ns)


def _traits(wake: Wake, least_ns: int, most_ns: int, slack_ns: int, **more: object) -> Traits:
    plain = Traits(False, wake, Expiry.ENGINE, "", least_ns, most_ns, slack_ns)
    return replace(plain, **more)  # type: ignore[arg-type]


_MEMORY: Final = Shipped("memory", _traits(Wake.WATCH, 10**6, _WEEK_NS, 0), "")
# A glance at its log every 42 ms sees nearly all; what no glance can see is found at the next look that follows none.
_SQLITE: Final = Shipped("SQLite", _traits(Wake.POLL, _S // 10, _WEEK_NS, 0), "", looks=Looks(0.5))
_ETCD: Final = Shipped(
    "etcd",
    _traits(Wake.WATCH, _S, _WEEK_NS, 2 * _S, queue=True),
    "it counts whole seconds, looks for leases that are over twice a second, and ends them by consensus",
)
_ZOOKEEPER: Final = Shipped(
    "ZooKeeper",
    _traits(
        Wake.WATCH,
        _ZOOKEEPER_TICK_NS,
        20 * _ZOOKEEPER_TICK_NS - 2 * _ZOOKEEPER_TICK_NS,
        4 * _ZOOKEEPER_TICK_NS,
        queue=True,
    ),
    "a session lasts two ticks more than the lease, and ends with the second tick after that; a tick is 2 s as shipped",
)
_CONSUL: Final = Shipped(
    "Consul",
    _traits(Wake.LONG_POLL, 10 * _S, 24 * 3600 * _S, _CONSUL_LOCK_DELAY_NS + _CONSUL_LATE_NS, expiry_slack_ttls=1),
    "it ends a session after 2 x ttl, and then keeps the lock empty for the lock-delay",
)
_KUBERNETES: Final = Shipped(
    "Kubernetes",
    _traits(Wake.WATCH, _S, _WEEK_NS, _S, expiry=Expiry.OBSERVER),
    "a Lease has whole seconds, and a change is seen a moment after it was made",
)
_REDIS: Final = Shipped("Redis", _traits(Wake.NOTIFY, _S // 10, _WEEK_NS, 0, best_effort=_LOSES), "")
_REDLOCK: Final = Shipped(
    "Redlock", _traits(Wake.POLL, _S // 10, _WEEK_NS, 0, best_effort=_LOSES), "", looks=Looks(1.0, per_ttl=8)
)
_SQL_LATE: Final = "a statement of the database has to see it"
_POSTGRESQL: Final = Shipped("PostgreSQL", _traits(Wake.NOTIFY, _S // 2, _WEEK_NS, _S // 10), _SQL_LATE)
_MYSQL: Final = Shipped("MySQL", _traits(Wake.POLL, _S // 2, _WEEK_NS, _S // 10), _SQL_LATE)

_SHIPPED: Final[dict[str, Shipped]] = {
    "memory": _MEMORY,
    "sqlite": _SQLITE,
    "etcd": _ETCD,
    "etcds": _ETCD,
    "zookeeper": _ZOOKEEPER,
    "zookeepers": _ZOOKEEPER,
    "kubernetes": _KUBERNETES,
    "consul": _CONSUL,
    "consuls": _CONSUL,
    "redis": _REDIS,
    "rediss": _REDIS,
    "redis+sentinel": _REDIS,
    "rediss+sentinel": _REDIS,
    "redlock": _REDLOCK,
    "redlocks": _REDLOCK,
    "postgresql": _POSTGRESQL,
    "postgres": _POSTGRESQL,
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
}


def shipped(url: str, *, fenced: bool = False) -> Shipped:
    """Return what the engine of ``url`` promises as shipped. ``fenced``: its leader writes through sinks.

    Of the URL's options those count that change it: ``lock_delay`` of Consul, ``expiry`` and ``poll`` of SQL databases.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigError("store", redact(url), f"is no URL: {error}") from error
    known = _SHIPPED.get(parts.scheme)
    if known is None:
        raise ConfigError("store", redact(url), f"must begin with one of {', '.join(f'{name}://' for name in SCHEMES)}")
    given = dict(parse_qsl(parts.query))
    if known is _CONSUL:
        return _consul(given.get("lock_delay"), fenced=fenced)
    return _sql(known, given) if known in {_POSTGRESQL, _MYSQL} else known


def _sql(known: Shipped, given: Mapping[str, str]) -> Shipped:
    # PostgreSQL as well: behind a pooler nobody is told, which it says when it is asked.
    known = replace(known, looks=Looks(_seconds("poll", given.get("poll"), _SQL_POLL_S)))
    if given.get("expiry") != Expiry.OBSERVER.value:
        return known
    slack_ns = known.traits.expiry_slack_ns + round(known.looks.every_s * _S)
    traits = replace(known.traits, expiry=Expiry.OBSERVER, expiry_slack_ns=slack_ns)
    return replace(known, traits=traits, why_late="a standby looks now and then whether the lease was renewed")


def _consul(lock_delay: str | None, *, fenced: bool) -> Shipped:
    delay_ns = 0 if fenced else _CONSUL_LOCK_DELAY_NS  # What comes late is refused by the sinks: nothing to wait for.
    if lock_delay is not None:
        delay_ns = round(_seconds("lock_delay", lock_delay, 0) * _S)
    traits = replace(_CONSUL.traits, expiry_slack_ns=delay_ns + _CONSUL_LATE_NS)
    told = f", and then keeps the lock empty for the lock-delay of {delay_ns / 1e9:g} s" if delay_ns else ""
    spared = f"with sinks there is no lock-delay to wait for (--fenced): {delay_ns / 1e9:g} s less"
    return Shipped("Consul", traits, f"it ends a session after 2 x ttl{told}", spared if delay_ns else "")


def _seconds(name: str, given: str | None, otherwise_s: float) -> float:
    if given is None:
        return otherwise_s
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 1e6:  # noqa: PLR2004  (beyond this somebody has slipped on a key)
        raise ConfigError(f"{name} of the store", given[:40], "must be a number of seconds")
    return seconds

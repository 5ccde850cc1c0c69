"""From a URL to a store: which scheme is which adapter, and what must be installed for it."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from tenure.errors import ConfigError, redact

if TYPE_CHECKING:
    from collections.abc import Callable


class _Scheme(NamedTuple):
    module: str
    maker: str
    client: str | None = None  # the package that it cannot do without
    extra: str = ""  # which extra installs that; empty: the one that is named like the scheme
    ttl_s: float | None = None  # the lease by default, if the engine as shipped does not give the usual one
    best_effort: bool = False  # it cannot keep what a store promises, so whoever opens it must say that this will do


SCHEMES: Final[dict[str, _Scheme]] = {
    "memory": _Scheme("tenure.stores.memory", "from_url"),
    "sqlite": _Scheme("tenure.stores.sqlite", "from_url"),
    "etcd": _Scheme("tenure.stores.etcd", "from_url", "hpack"),
    "etcds": _Scheme("tenure.stores.etcd", "from_url", "hpack", "etcd"),
    "zookeeper": _Scheme("tenure.stores.zookeeper", "from_url"),
    "zookeepers": _Scheme("tenure.stores.zookeeper", "from_url"),
    "kubernetes": _Scheme("tenure.stores.kubernetes", "from_url"),
    "consul": _Scheme("tenure.stores.consul", "from_url", ttl_s=10.0),
    "consuls": _Scheme("tenure.stores.consul", "from_url", ttl_s=10.0),
    "redis": _Scheme("tenure.stores.redis", "from_url", best_effort=True),
    "rediss": _Scheme("tenure.stores.redis", "from_url", best_effort=True),
    "redis+sentinel": _Scheme("tenure.stores.redis", "from_url", best_effort=True),
    "rediss+sentinel": _Scheme("tenure.stores.redis", "from_url", best_effort=True),
    "redlock": _Scheme("tenure.stores.redis.redlock", "from_url", best_effort=True),
    "redlocks": _Scheme("tenure.stores.redis.redlock", "from_url", best_effort=True),
    "postgresql": _Scheme("tenure.stores.postgresql", "from_url", "asyncpg"),
    "postgres": _Scheme("tenure.stores.postgresql", "from_url", "asyncpg", "postgresql"),
    "mysql": _Scheme("tenure.stores.mysql", "from_url", "asyncmy"),
    "mariadb": _Scheme("tenure.stores.mysql", "from_url", "asyncmy", "mysql"),
}

_BEST_EFFORT: Final = (
    "is best effort: a failover, a restart without data or a jump of its clock can make two leaders at once, and tokens go back."
    " Use etcd://, zookeeper://, consul://, kubernetes://, postgresql://, mysql:// or sqlite:// where that must not happen."
    " If two leaders for a while do no harm, say so: accept_best_effort=True, --accept-best-effort or"
    " TENURE_ACCEPT_BEST_EFFORT=1."
)


def make_store(url: str, options: dict[str, Any], *, accept_best_effort: bool = False) -> Any:
    """Return the store for a URL, not yet opened. Raises ConfigError for anything that no store can be made of.

    A store that is best effort (rule 12) is made only for who accepts that.
    """
    try:
        scheme = urlsplit(url).scheme
    except ValueError as error:  # a bracket that is never closed, for one
        raise ConfigError("store", redact(url), f"is no URL: {error}") from error
    if scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise ConfigError("store", redact(url), f"must begin with one of {known}")
    adapter = SCHEMES[scheme]
    if adapter.best_effort and not accept_best_effort:
        raise ConfigError("store", redact(url), _BEST_EFFORT)
    if adapter.client is not None and find_spec(adapter.client) is None:
        raise ConfigError("store", redact(url), f"needs a client: pip install 'tenure[{adapter.extra or scheme}]'")
    maker: Callable[..., Any] = getattr(import_module(adapter.module), adapter.maker)
    try:
        return maker(url, **options)
    except TypeError as error:
        names = ", ".join(sorted(options)) or "none"
        raise ConfigError("store options", names, f"do not fit {scheme}://: {error}") from error


def default_ttl_s(url: str) -> float | None:
    """Return how long a lease lasts by default in the store that ``url`` names; None: as long as anywhere."""
    scheme = SCHEMES.get(url.partition(":")[0])
    return None if scheme is None else scheme.ttl_s


def path_of(url: str) -> str:
    """Return the path of a ``scheme:///path`` URL: three slashes and an absolute path, as SQLAlchemy has it, four too."""
    parts = urlsplit(url)
    if parts.netloc:
        raise ConfigError("store", redact(url), f"has a host: write {parts.scheme}:///absolute/path")
    if parts.query or parts.fragment:
        raise ConfigError("store", redact(url), "has a query or a fragment, which mean nothing here")
    return unquote(parts.path)

"""What the URLs of all SQL stores say: where the servers are, who we are, whose clock ends a lease, how often to look."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tenure.clients.address import ClusterURL
from tenure.clients.options import password_of, seconds_of
from tenure.errors import ConfigError
from tenure.stores.base import Expiry

SQL_OPTIONS: Final = frozenset({"expiry", "password_file", "poll", "timeout"})
_POLL_S: Final = "0.5"
_POLL_MAX_S: Final = 60.0
_POLL_MIN_S: Final = 0.01
_TIMEOUT_S: Final = "2"
_TIMEOUT_MAX_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class SqlSettings:
    """What every SQL store is told."""

    endpoints: tuple[str, ...]
    address: str  # what may be printed
    user: str | None
    database: str
    expiry: Expiry
    poll_s: float
    timeout_s: float
    password: str | None = field(default=None, repr=False)

    @property
    def observed(self) -> bool:
        """Whether leases end by the clocks of those who wait, and not by the database's."""
        return self.expiry is Expiry.OBSERVER


def sql_settings_of(cluster: ClusterURL, given: Mapping[str, str]) -> SqlSettings:
    """Return what all such URLs have. Raises ConfigError for what cannot be meant."""
    if "/" in cluster.path.strip("/"):
        raise ConfigError("store", cluster.shown, "has a path of several parts: write the name of one database there")
    expiry = given.get("expiry", Expiry.ENGINE.value)
    if expiry not in set(Expiry):
        raise ConfigError("expiry", expiry, f"must be one of {', '.join(Expiry)}")
    if cluster.password is not None and "password_file" in given:
        raise ConfigError(
            "store", cluster.shown, "has a password in two places: leave it out, or leave out password_file"
        )
    return SqlSettings(
        cluster.endpoints,
        cluster.shown,
        cluster.user,
        cluster.path.strip("/"),
        Expiry(expiry),
        seconds_of("poll", given.get("poll", _POLL_S), _POLL_MAX_S, least_s=_POLL_MIN_S),
        seconds_of("timeout", given.get("timeout", _TIMEOUT_S), _TIMEOUT_MAX_S),
        password_of(cluster, given),
    )

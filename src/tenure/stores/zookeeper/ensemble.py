"""What must be known of an ensemble before anybody stands: its tick, how long sessions may be, and its name."""

from secrets import token_hex
from typing import Final

from tenure.clients.zookeeper import Code, Fault, Session, Settings
from tenure.clients.zookeeper.paths import make_path
from tenure.clients.zookeeper.wire import READERS, TIMEOUT_MAX_MS, create, get_data
from tenure.clock import Clock
from tenure.errors import ConfigError
from tenure.stores.base import Expiry, Traits, Wake
from tenure.stores.zookeeper.leases import SLACK_TICKS

_IDENTITY: Final = ".tenure-identity"
# Where nothing was set by hand, a session has at least 2 and at most 20 ticks.
_TICKS_MIN, _TICKS_MAX = 2, 20
# A session ends with the first tick after its time, and all learn of it by a transaction. Not counted in: an ensemble that
# gets a new leader of its own, which counts every session anew.
_LATE_TICKS: Final = 2


async def longest_session_ms(settings: Settings, clock: Clock) -> int:
    """Return the longest timeout that the ensemble gives to a session: what it makes of an impossible one."""
    session = Session(settings, TIMEOUT_MAX_MS, clock, patience_s=settings.timeout_s)
    await session.open()
    await session.close()
    return session.timeout_ms


def tick_of(shortest_ms: int, longest_ms: int) -> int:
    """Return the tick of an ensemble that gives sessions of such lengths.

    Whoever has set one of the bounds by hand has left the other as a multiple of the tick. If it cannot be told which, the
    larger tick is safe: it costs time when a holder dies, and the smaller one might cost the promise.
    """
    return max(shortest_ms // _TICKS_MIN, longest_ms // _TICKS_MAX)


def traits_of(address: str, tick_ms: int, longest_ms: int) -> Traits:
    """Return what the ensemble promises. Raises ConfigError if that is not enough for any ttl."""
    ttl_max_ms = longest_ms - SLACK_TICKS * tick_ms
    if ttl_max_ms < tick_ms:
        rule = f"gives no session of {(SLACK_TICKS + 1) * tick_ms} ms: raise maxSessionTimeout there"
        raise ConfigError("store", address, rule)
    return Traits(
        queue=True,
        wake=Wake.WATCH,
        expiry=Expiry.ENGINE,
        token_source="the transaction (czxid) that created the holder's own node",
        ttl_min_ns=tick_ms * 10**6,
        ttl_max_ns=ttl_max_ms * 10**6,
        expiry_slack_ns=(SLACK_TICKS + _LATE_TICKS) * tick_ms * 10**6,
    )


async def identity_of(session: Session, settings: Settings) -> str:
    """Return the name of what is below the chroot, which whoever comes first makes up."""
    path = f"{settings.chroot}/{_IDENTITY}"
    try:
        return (await session.ask(get_data(path)))[0].decode("ascii", "replace")
    except Fault as fault:
        if fault.code != Code.NO_NODE:
            raise
    if settings.chroot:
        await make_path(session, settings.chroot, settings.acl)
    try:
        await session.ask(create(path, token_hex(8).encode(), READERS))
    except Fault as fault:
        if fault.code != Code.NODE_EXISTS:  # Else somebody was quicker.
            raise
    return (await session.ask(get_data(path)))[0].decode("ascii", "replace")

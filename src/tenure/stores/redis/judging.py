"""What a server of Redis says of itself, and what that means for elections: pure functions.

Settings are read from INFO, which few users are denied. What stands in CONFIG only is "not told" to most, and said so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tenure.stores.examining import Finding, bad, good, warning

_EVICTS_NOTHING: Final = "noeviction"


@dataclass(frozen=True, slots=True)
class Server:
    """What one server tells. ``settings`` are those of CONFIG, if it tells them."""

    info: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)
    untold: str = ""  # why it tells nothing

    @property
    def version(self) -> str:
        return self.info.get("redis_version", "")


def info_in(text: str) -> dict[str, str]:
    """Return the lines of INFO."""
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line and not line.startswith("#"))


def judge_eviction(where: str, server: Server) -> Finding:
    """Judge whether a server that runs out of memory may throw away an office, the counter, or the name of the store."""
    policy, limit = server.info.get("maxmemory_policy", ""), server.info.get("maxmemory", "")
    if not policy:
        return good("memory", f"{where}: not told: that takes +info")
    if policy == _EVICTS_NOTHING or limit == "0":
        limited = "no limit" if limit == "0" else f"{int(limit) >> 20} MiB"
        return good("memory", f"{where}: {limited}, and maxmemory-policy {policy}")
    lost = "offices, which expire" if policy.startswith("volatile") else "offices and the counter of tokens"
    told = f"{where}: maxmemory-policy {policy} may throw away {lost}, once {int(limit) >> 20} MiB are used"
    return bad("memory", told, "set maxmemory-policy noeviction, or use a server that is no cache")


def judge_persistence(where: str, server: Server) -> Finding:
    """Judge what a server remembers after a crash."""
    aof = server.info.get("aof_enabled", "")
    if not aof:
        return good("persistence", f"{where}: not told: that takes +info")
    fsync = server.settings.get("appendfsync", "")
    if aof == "1" and fsync == "always":
        return good("persistence", f"{where}: appendonly, appendfsync always")
    if aof == "1":
        told = f"{where}: appendonly, appendfsync {fsync or 'not told'}"
        told = told if fsync else f"{told} (that takes +config|get)"
        lost = "a server that is killed may forget the last second or two: offices and tokens"
        return warning("persistence", f"{told}; {lost}", "set appendfsync always")
    told = f"{where}: no appendonly: a server that restarts has forgotten who leads, and which tokens were given out"
    return warning("persistence", told, "set appendonly yes and appendfsync always")


def judge_replicas(server: Server) -> Finding:
    """Judge what a failover would lose."""
    count, least = server.info.get("connected_slaves", ""), server.settings.get("min-replicas-to-write", "")
    if not count:
        return good("replicas", "not told: that takes +info")
    if count == "0":
        return warning("replicas", "none: if this server is lost, so are its offices and tokens", "have one or two")
    told = f"{count}, which follow a moment behind: one that is promoted may not know the last office and token"
    if least == "0":
        advice = "set min-replicas-to-write 1, so that a primary that is cut off stops giving out offices after a while"
        return warning("replicas", told, advice)
    return warning("replicas", told, "nothing mends that: fence what leaders write")

"""What a measurement means: pure functions from what was measured to what is said of it.

The thresholds stand here, each with its reason. A finding is bad if elections will not work with it, and a warning if
they do.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Final

from tenure.stores.base import Expiry, Traits, Wake
from tenure.stores.examining import Finding, bad, good, warning

# A renewal is given up after a quarter of the ttl (``Timing``), so an engine whose every second answer takes longer
# loses tenures all day. At a fifth of that the margin is for a slow disk, a busy minute, a leader of the engine that
# changes: with less, each of these is a lost tenure.
_LATENCY_BAD: Final = 4
_LATENCY_WARNING: Final = 20
_CERTIFICATE_WARNING_DAYS: Final = 14
_MEMBERS_MAX: Final = 7
_DAY_S: Final = 86_400
# No lease is judged by the time of day. This is for who reads the logs of two machines side by side.
_CLOCK_WARNING_S: Final = 5.0

_WAKES: Final = {
    Wake.WATCH: "a standby is told when its turn may have come",
    Wake.LONG_POLL: "a standby keeps one question open, and is answered when its turn may have come",
    Wake.NOTIFY: "a standby is told when its turn may have come",
    Wake.POLL: "a standby looks again and again whether its turn has come",
}
_EXPIRIES: Final = {
    Expiry.ENGINE: "the engine ends a lease that nobody renews, by its own clock",
    Expiry.OBSERVER: "a standby takes a lease for over that it has not seen renewed for a ttl, by the standby's own clock",
}


def judge_members(asked: Mapping[str, str | None], listed_count: int | None = None) -> Finding:
    """Judge which members of those in the URL answer (None) or why not, and whether there are more (None: not told)."""
    silent = [f"{endpoint}: {why.removeprefix(f'{endpoint}: ')}" for endpoint, why in asked.items() if why is not None]
    told = f"{len(asked) - len(silent)} of the {len(asked)} that the URL names answer"
    if silent:
        return warning(
            "members", f"{told}; {'; '.join(silent)}", "start what does not answer, or take it out of the URL"
        )
    if listed_count is not None and listed_count > len(asked):
        advice = "name them all: if those fail, this process has nobody to ask"
        return warning("members", f"{told}, and there are {listed_count}", advice)
    return good("members", told)


def judge_quorum(voter_count: int) -> Finding:
    """Judge how many members decide. Only how many: whether they do is measured by asking them for a decision."""
    tolerated = (voter_count - 1) // 2
    told = f"{voter_count} voting member{'s' if voter_count > 1 else ''}: {tolerated or 'none'} may fail"
    if voter_count > _MEMBERS_MAX:
        return warning("quorum", told, f"every write waits for {voter_count // 2 + 1} of them: 5 are enough")
    if voter_count == 1:
        return warning("quorum", told, "use 3, of which one may fail")
    if voter_count % 2 == 0:
        return warning("quorum", told, f"that is no more than {voter_count - 1} tolerate: use {voter_count + 1}")
    return good("quorum", told)


def judge_versions(versions: Mapping[str, str], broken: Mapping[str, str]) -> Finding:
    """Judge which version each member runs; ``broken`` says of some of them what is wrong with them."""
    distinct = sorted(set(versions.values()))
    told = " and ".join(distinct)
    for version in distinct:
        if version in broken:
            return warning("version", told, broken[version])
    if len(distinct) > 1:
        apart = ", ".join(f"{endpoint} has {version}" for endpoint, version in sorted(versions.items()))
        return warning("version", apart, "finish the upgrade: members of two versions are meant for an hour")
    return good("version", told)


def undecided(why: str) -> Finding:
    """Say that members answer and decide nothing."""
    advice = "more than half of the members must run and reach each other: see their logs"
    return bad("quorum", f"nothing is decided: {why}", advice)


def judge_leaders(leaders: Mapping[str, str]) -> Finding:
    """Judge whom each member takes for the leader of the engine; an empty name is nobody."""
    distinct = sorted({leader for leader in leaders.values() if leader})
    if not distinct:
        return bad(
            "leader", "no member knows of one", "start members until more than half of them run, and see their logs"
        )
    if len(distinct) > 1:
        apart = ", ".join(f"{endpoint} says {leader or 'nobody'}" for endpoint, leader in sorted(leaders.items()))
        return warning("leader", apart, "ask again: if they still disagree, they are cut off from each other")
    lost = sorted(endpoint for endpoint, leader in leaders.items() if not leader)
    if lost:
        return warning(
            "leader", f"{distinct[0]}, but {', '.join(lost)} knows of none", "see whether its peers reach it"
        )
    return good("leader", distinct[0])


def judge_latency(what: str, median_ns: int, ttl_ns: int) -> Finding:
    """Judge how long an answer takes, against the lease that has to be renewed in time."""
    told = f"{what} takes {median_ns / 1e6:.1f} ms (median)"
    if median_ns > ttl_ns / _LATENCY_BAD:
        least_s = median_ns * _LATENCY_WARNING / 1e9
        rule = f"a renewal is given up after {ttl_ns / _LATENCY_BAD / 1e6:.0f} ms of a ttl of {ttl_ns / 1e9:g} s"
        return bad("latency", f"{told}, and {rule}", f"use a ttl of at least {least_s:.1f} s, or a nearer engine")
    if median_ns > ttl_ns / _LATENCY_WARNING:
        least_s = median_ns * _LATENCY_WARNING / 1e9
        rule = f"more than a twentieth of a ttl of {ttl_ns / 1e9:g} s, which leaves little for a bad minute"
        return warning("latency", f"{told}, {rule}", f"use a ttl of at least {least_s:.1f} s, or a nearer engine")
    return good("latency", told)


def judge_certificate(endpoint: str, ends_at_s: float, now_s: float) -> Finding:
    """Judge how long the certificate of a member will do; both are seconds since 1970."""
    left_s = ends_at_s - now_s
    date = datetime.fromtimestamp(ends_at_s, UTC).date().isoformat()
    told = f"TLS; the certificate of {endpoint} ends on {date}, in {left_s / _DAY_S:.0f} days"
    if left_s < _CERTIFICATE_WARNING_DAYS * _DAY_S:
        return warning("encryption", told, "replace it: once it has ended nobody can renew a lease")
    return good("encryption", told)


def judge_plain(hosts: Iterable[str]) -> Finding:
    """Judge a connection without TLS by where it leads."""
    if all(_is_loopback(host) for host in hosts):
        return good("encryption", "none, and none needed: it does not leave this machine")
    return warning(
        "encryption", "none", "use TLS unless the network is your own: whoever is on the way reads all of it"
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def judge_clock(ahead_s: float) -> Finding:
    """Judge how far the clock of the engine is ahead of ours."""
    told = f"the engine's clock is {abs(ahead_s):.1f} s {'ahead of' if ahead_s > 0 else 'behind'} ours"
    if abs(ahead_s) > _CLOCK_WARNING_S:
        return warning("clock", f"{told}; no lease depends on it", "have both follow NTP, or logs will mislead")
    return good("clock", told)


def judge_minimum(minimum_ns: int, ttl_ns: int) -> Finding:
    """Judge the shortest lease that the engine gives, whatever is asked for."""
    told = f"the engine gives {minimum_ns / 1e9:g} s or more"
    if minimum_ns > ttl_ns:
        late = f"an office whose leader died stays taken for {minimum_ns / 1e9:g} s, not {ttl_ns / 1e9:g} s"
        return warning("lease", f"{told}: {late}", f"use a ttl of {minimum_ns / 1e9:g} s, or tune the engine")
    return good("lease", f"{told}, so a ttl of {ttl_ns / 1e9:g} s is kept")


def unfit(ttl_ns: int, traits: Traits) -> Finding:
    """Say that the store does not give such a lease."""
    told = f"a ttl of {_span(ttl_ns)} is not given, only from {_span(traits.ttl_min_ns)} to {_span(traits.ttl_max_ns)}"
    return bad("lease", told, "use another --ttl, or set the engine up for this one")


def promises(traits: Traits) -> list[Finding]:
    """Say in plain words what a store promises."""
    slack = " and ".join(_slack(traits))
    words = (
        "who came first is next in office" if traits.queue else "whoever asks first after an end is next in office",
        _WAKES[traits.wake],
        _EXPIRIES[traits.expiry],
        f"the office of a leader that died is free {f'at most {slack} after' if slack else 'with'} the end of its lease",
        f"tokens come from {traits.token_source}",
        f"a ttl may be from {_span(traits.ttl_min_ns)} to {_span(traits.ttl_max_ns)}",
    )
    found = [good("promise", each) for each in words]
    if traits.best_effort:
        advice = "use it where two leaders for a while do no harm, and fence what leaders write"
        found.append(warning("promise", f"best effort: {traits.best_effort}", advice))
    return found


def _slack(traits: Traits) -> list[str]:
    ttls = "one more ttl" if traits.expiry_slack_ttls == 1 else f"{traits.expiry_slack_ttls} more ttls"
    slack_s = traits.expiry_slack_ns / 1e9
    return [*([ttls] if traits.expiry_slack_ttls else ()), *([f"{slack_s:g} s"] if slack_s else ())]


def _span(ns: int) -> str:
    days, rest_ns = divmod(ns, _DAY_S * 10**9)
    return f"{days} days" if days and not rest_ns else f"{ns / 1e9:g} s"

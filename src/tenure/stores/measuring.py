"""What every engine is examined by alike.

Rules of this file
1. Trouble is a finding: whatever an engine does while a part of it is examined, the rest is examined as well.
2. Nothing hangs: each part has a limit.
3. A trial is held in an election that nobody else has heard of, and whoever examines clears it away. Where it cannot be
   cleared away all trials share one, and take turns.
"""

import asyncio
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from statistics import median
from typing import Final

from tenure.errors import OutcomeUnknown, Refused, StoreError, Unreachable
from tenure.model import Bid, Ended, Grant, Holder, Wait
from tenure.stores.base import Store
from tenure.stores.examining import Finding, bad, good, warning
from tenure.stores.judging import judge_certificate, judge_latency, undecided, unfit

# Five requests that are each given up after two seconds, the longest as shipped.
_PART_WITHIN_S: Final = 10.0
_HANDSHAKE_WITHIN_S: Final = 2.0
# One member that is asked by itself. More than a call has: that an engine is slow is worth more than that it is silent.
MEMBER_WITHIN_S: Final = 6.0
_TRIAL_WITHIN_S: Final = 20.0  # It is four parts in one.
# Another trial takes a second. One that died holds its office for a ttl, which is eight seconds as shipped.
_TURN_WITHIN_S: Final = 12.0
_SAMPLES: Final = 5
# An engine that has just lost its leader decides nothing until it has another one, a second or two later.
_TRIES: Final = 3
_ELSEWHERE: Final = "if you may only use certain names, put what they begin with into the URL, behind the hosts"


async def part(subject: str, examination: Awaitable[list[Finding]]) -> list[Finding]:
    """Return what one part of an examination found; if it fails, that is what it found."""
    try:
        async with asyncio.timeout(_PART_WITHIN_S):
            return await examination
    except StoreError as error:
        return [bad(subject, _words(error))]
    except TimeoutError:
        return [bad(subject, f"no answer within {_PART_WITHIN_S:g} s")]


def _words(error: StoreError) -> str:
    """Say what went wrong without naming the store, which the examination is of."""
    return f"{error.operation} {error.what}: {error.detail}"


async def median_ns(request: Callable[[], Awaitable[object]]) -> int:
    """Return how long a request takes: the middle one of a few, after one that may find a cold connection."""
    await request()
    taken_ns = []
    for _ in range(_SAMPLES):
        began_ns = time.perf_counter_ns()
        await request()
        taken_ns.append(time.perf_counter_ns() - began_ns)
    return int(median(taken_ns))


def trial_name() -> str:
    """Return the name of an election that nobody else holds."""
    return f"tenure-doctor-{secrets.token_hex(4)}"


async def try_election(store: Store, election: str, ttl_ns: int, *, shared: bool = False) -> list[Finding]:
    """Hold an election: whoever may do that may do all that elections need. The last finding is bad if it failed.

    ``shared``: other trials are held under that name, so somebody in office is waited for, and proves nothing.
    """
    found: list[Finding] = []
    try:
        async with asyncio.timeout(_TRIAL_WITHIN_S):
            await _wait_for_decision(store, election)
            found.append(judge_latency("a read", await median_ns(lambda: store.read(election)), ttl_ns))
            if store.traits.ttl_min_ns <= ttl_ns <= store.traits.ttl_max_ns:
                found += await _take_office(store, Bid(election, Holder.fresh(), 1, ttl_ns), shared=shared)
            else:
                found.append(unfit(ttl_ns, store.traits))
    except Refused as error:
        found.append(bad("office", _words(error), "" if shared else _ELSEWHERE))
    except StoreError as error:
        found.append(bad("office", _words(error)) if found else undecided(error.detail))
    except TimeoutError:
        found.append(bad("office", f"not taken and left within {_TRIAL_WITHIN_S:g} s"))
    return found


async def _wait_for_decision(store: Store, election: str) -> None:
    for _ in range(_TRIES - 1):
        with suppress(OutcomeUnknown, Unreachable):
            await store.read(election)
            return
    await store.read(election)


async def _take_office(store: Store, bid: Bid, *, shared: bool) -> list[Finding]:
    granted, claiming_ns = await _claim(store, bid, shared=shared)
    if isinstance(granted, Wait) and shared:
        advice = f"see who leads {bid.election}, a name that is meant for doctors, and examine again once it is free"
        return [warning("office", f"not tried: {bid.election} was held for all of {_TURN_WITHIN_S:g} s", advice)]
    if isinstance(granted, Wait):
        raise Refused(store.address, "claim", f"somebody is in office in {bid.election}, a name that was just made up")
    renewal_ns = await median_ns(lambda: store.renew(granted))
    if isinstance(await store.renew(granted), Ended):
        raise Refused(
            store.address, "renew", "the office was lost at once: does somebody delete what candidates write?"
        )
    leaving_ns = time.perf_counter_ns()
    await store.release(bid)
    took_ms = (claiming_ns + time.perf_counter_ns() - leaving_ns) / 1e6
    return [
        judge_latency("a renewal", renewal_ns, bid.ttl_ns),
        good("office", f"claimed and released in {took_ms:.1f} ms, with token {granted.token}"),
    ]


async def _claim(store: Store, bid: Bid, *, shared: bool) -> tuple[Grant | Wait, int]:
    """Claim, and return the answer and how many nanoseconds it took. Where others hold trials, wait for them to leave."""
    until_s = time.monotonic() + _TURN_WITHIN_S
    while True:
        began_ns = time.perf_counter_ns()
        answer = await store.claim(bid)
        claiming_ns = time.perf_counter_ns() - began_ns
        left_s = until_s - time.monotonic()
        if isinstance(answer, Grant) or not shared or left_s <= 0:
            return answer, claiming_ns
        with suppress(TimeoutError):
            await asyncio.wait_for(store.changed(answer), left_s)


async def look_at_certificates(endpoints: Sequence[str], tls: ssl.SSLContext) -> list[Finding]:
    """Say of each member for how long its certificate will do. One that does not answer is told of elsewhere."""
    ends = await asyncio.gather(*(_end_of_certificate_s(endpoint, tls) for endpoint in endpoints))
    return [
        judge_certificate(endpoint, end_s, time.time())
        for endpoint, end_s in zip(endpoints, ends, strict=True)
        if end_s is not None
    ]


async def _end_of_certificate_s(endpoint: str, tls: ssl.SSLContext) -> float | None:
    host, _, port = endpoint.rpartition(":")
    try:
        async with asyncio.timeout(_HANDSHAKE_WITHIN_S):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=tls)
    except OSError:  # which a TimeoutError is, too
        return None
    certificate = writer.get_extra_info("peercert")
    writer.transport.abort()
    return ssl.cert_time_to_seconds(certificate["notAfter"])

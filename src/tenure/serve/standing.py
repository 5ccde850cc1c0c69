"""For any language: stand, wait, lead, resign; lock and unlock."""

import asyncio
from typing import Final

from tenure.election import Election
from tenure.errors import ConfigError
from tenure.lock import Lock
from tenure.office.names import check_name
from tenure.serve.answers import Fault, fault_of, leaving
from tenure.serve.candidacy import KEEP_S, SHUTDOWN, Candidacy, State
from tenure.serve.hub import BEAT_S, Pipe, block_of
from tenure.serve.probing import seen
from tenure.serve.routes import Call, Reply, told
from tenure.serve.streaming import begin_stream, first_of, pipe_of, send_block, when_gone
from tenure.stores.base import Store
from tenure.timing import Timing

_STATES_PER_KEEP: Final = 3


async def stand(call: Call) -> Reply:
    """Stand for a client."""
    body = call.body
    name = check_name(call.path["election"])
    call.sidecar.check_reached()
    advertise = body.get("advertise", call.sidecar.setup.advertise)
    election = Election(call.sidecar.store, name, timing=_timing(call), advertise=advertise)
    check_ttl(call.sidecar.store.store, election.timing)
    one = call.sidecar.register.begin(election, body.get("keep_s", KEEP_S))
    return told(one.as_json(), 201, {"Location": f"/v1/candidacies/{one.id}"})


async def look(call: Call) -> Reply:
    """Say how it stands, now or when that has changed."""
    one = call.sidecar.register.get(call.path["id"])
    wait_s = call.query.get("wait_s", 0.0)
    if wait_s:
        state = call.query.get("while")
        differs = one.differs(None if state is None else State(state))
        # Half of the client's time at the most: it must be able to ask again before that is over.
        await first_of(differs, when_gone(call.receive), within_s=min(wait_s, one.keep_s / 2))
    return _shown(one)


async def heartbeat(call: Call) -> Reply:
    """Take note that the client is there, and say how long it may believe that it leads."""
    return _shown(call.sidecar.register.get(call.path["id"]))


async def resign(call: Call) -> Reply:
    """End a candidacy, and answer when the office was released."""
    one = call.sidecar.register.get(call.path["id"])
    one.resign()
    await one.released()
    return _shown(one)


async def stream(call: Call) -> None:
    """Tell a client how it stands for as long as it listens; its candidacy ends with the connection."""
    one, pipe = call.sidecar.register.get(call.path["id"]), pipe_of(call.scope)
    one.stream_opened()
    if pipe is not None:
        pipe.is_stream = True
    hanging = asyncio.create_task(_hang(one, pipe))
    try:
        await begin_stream(call.send)
        gone = asyncio.create_task(when_gone(call.receive))
        try:
            while not gone.done():
                changed = asyncio.create_task(one.changed())
                await send_block(call.send, block_of("state", one.as_json()))
                if one.over:
                    break
                await asyncio.wait(
                    {changed, gone},
                    timeout=min(BEAT_S, one.keep_s / _STATES_PER_KEEP),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                changed.cancel()
        finally:
            gone.cancel()
    finally:
        hanging.cancel()
        if pipe is not None:
            pipe.is_stream = False
        one.stream_closed(is_cut_off=pipe is not None and pipe.is_cut_off)
    await call.send({"type": "http.response.body", "body": b""})


async def _hang(one: Candidacy, pipe: Pipe | None) -> None:
    """Wait until nothing hangs on a stream any more. Beside what is sent on it, which may wait for ever for somebody to read."""
    await one.released()
    if pipe is not None:
        pipe.is_stream = False


async def lock(call: Call) -> Reply:
    """Take a lock, or say that others hold it."""
    name = check_name(call.path["lock"], "lock")
    call.sidecar.check_reached()
    lock_ = Lock(call.sidecar.store, name, timing=_timing(call))
    check_ttl(call.sidecar.store.store, lock_.timing)
    keep_s, wait_s = call.body.get("keep_s", KEEP_S), call.body.get("wait_s", 0.0)
    one = call.sidecar.register.begin(lock_, keep_s + wait_s, wait_s)
    gone = asyncio.create_task(when_gone(call.receive))
    await first_of(one.differs(State.WAITING), gone)
    if gone.done() and not gone.cancelled():  # Nobody would ever release it.
        one.resign("client-gone")
        await one.released()
    one.keep_s = keep_s
    one.alive()
    if one.trouble is not None:
        raise fault_of(one.trouble)
    if one.reason == SHUTDOWN:
        raise leaving()
    if one.state is not State.LEADING:
        fix = "Ask again, or with a longer wait_s."
        told_ = seen(call, name)
        raise Fault(423, "locked", f"others hold {name!r}", fix=fix, headers={"Retry-After": "1"}, **told_)
    return _shown(one)


async def unlock(call: Call) -> Reply:
    """Give a lock back, and answer when it is free."""
    one = call.sidecar.register.get(call.path["lock"], "lock")
    one.resign()
    await one.released()
    return _shown(one)


def _shown(one: Candidacy) -> Reply:
    if one.trouble is not None:
        raise fault_of(one.trouble)
    return told(one.as_json())


def _timing(call: Call) -> Timing:
    ttl_s = call.body.get("ttl_s")
    try:
        return call.sidecar.setup.timing if ttl_s is None else Timing.of(ttl=ttl_s)
    except ConfigError as error:
        raise Fault(422, "invalid", f"ttl_s cannot work: {error.rule}", field="ttl_s") from None


def check_ttl(store: Store, timing: Timing) -> None:
    """Refuse at once what the seat would refuse, so that nobody has to ask again to learn of it. Raises ConfigError."""
    traits, ttl_ns = store.traits, timing.ttl_ns
    if not traits.ttl_min_ns <= ttl_ns <= traits.ttl_max_ns:
        rule = f"must lie between {traits.ttl_min_ns / 1e9:g} and {traits.ttl_max_ns / 1e9:g} s for {store.address}"
        raise ConfigError("ttl_s", f"{ttl_ns / 1e9:g}", rule)

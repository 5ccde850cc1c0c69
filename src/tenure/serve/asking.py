"""What is known of elections: as last seen, as the engine says now, and as it was; and the word that asks a leader to leave."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from tenure.errors import ConfigError, OutcomeUnknown, StoreError
from tenure.model import Incumbent
from tenure.office.leaving import LOOK_EVERY_S, has_left
from tenure.office.opened import run_there
from tenure.serve.answers import Fault
from tenure.serve.probing import shown_incumbent
from tenure.serve.routes import Call, Reply, told
from tenure.serve.streaming import pipe_of
from tenure.stores.base import CanAskToResign, ElectionStatus

Question = Callable[[], Coroutine[Any, Any, Any]]
_WITHIN_S: Final = 5.0
_TENURES: Final = 100  # of a history, unless more are asked for


async def elections(call: Call) -> Reply:
    """All of them, as last seen."""
    view, board = call.sidecar.view, call.sidecar.board
    known = dict.fromkeys(sorted(call.sidecar.names())) | dict(view.statuses)
    clients = call.sidecar.register.clients()
    shown = [_shown(call, name, status, clients[name]) for name, status in sorted(known.items())]
    return told(
        {
            "store": board.address,
            "best_effort": board.best_effort or None,
            "seen_s_ago": view.age_s,
            "trouble": view.trouble or None,
            "elections": shown,
        }
    )


async def election(call: Call) -> Reply:
    """One of them, as last seen."""
    name, view = call.path["election"], call.sidecar.view
    call.sidecar.check_known(name)
    seen = {"seen_s_ago": view.age_s, "trouble": view.trouble or None}
    clients = call.sidecar.register.clients()[name]
    return told({**_shown(call, name, view.statuses.get(name), clients), **seen})


async def history(call: Call) -> Reply:
    """What is on record of an election."""
    from tenure.apps.history.reading import look  # noqa: PLC0415  (few ask for it)

    name = call.path["election"]
    call.sidecar.check_known(name)
    found = await _within(call, "history", lambda: look(call.sidecar.store, name))
    tenures = [one.as_json() for one in found.tenures[-call.query.get("limit", _TENURES) :]]
    return told({"election": name, "tenures": tenures, "kept_here_only": found.folder is not None})


async def check(call: Call) -> Reply:
    """Whether the engine says that a token is the incumbent's."""
    name, token = call.body["election"], call.body["token"]
    call.sidecar.check_known(name)
    incumbent = await _ask(call, "read", lambda: call.sidecar.store.store.read(name))
    granted = incumbent is not None and incumbent.token == token
    return told({"election": name, "token": token, "granted": granted, "leader": shown_incumbent(incumbent)})


async def resign(call: Call) -> Reply:
    """Ask the leader to leave, and wait for it if that is wanted."""
    name = call.path["election"]
    call.sidecar.check_known(name)
    call.sidecar.check_reached()
    store = call.sidecar.store.store
    if not isinstance(store, CanAskToResign):
        fix = "End the leader's process by a signal, and it will resign."
        raise Fault(501, "cannot-ask", f"{store.address} cannot pass on such a request", fix=fix)
    if (meant := call.body.get("token")) is not None:
        await _check_leads(call, name, meant)
    asked: Incumbent | None = await _ask(call, "ask_to_resign", lambda: store.ask_to_resign(name))
    wait_s = call.body.get("wait_s", 0.0)
    left = await _left_within(call, asked, wait_s) if asked is not None and wait_s else None
    return told({"election": name, "asked": shown_incumbent(asked), "left": left})


async def _check_leads(call: Call, name: str, token: int) -> None:
    """Refuse to ask somebody else than who is meant: people take their time over such a question, and leaders change meanwhile.

    Between this and the word itself another may take office in the instant that is left. Whom it was left for is in the answer.
    """
    incumbent: Incumbent | None = await _ask(call, "read", lambda: call.sidecar.store.store.read(name))
    if incumbent is None or incumbent.token != token:
        now = "nobody leads" if incumbent is None else f"{incumbent.holder} leads with token {incumbent.token}"
        leader = shown_incumbent(incumbent)
        raise Fault(409, "tenure-over", f"the tenure with token {token} is over: {now}", leader=leader)


async def _left_within(call: Call, asked: Incumbent, wait_s: float) -> bool:
    """Wait until that tenure is over."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + wait_s
    while True:
        seen: Incumbent | StoreError | None
        try:
            seen = await _ask(call, "read", lambda: call.sidecar.store.store.read(asked.election))
        except StoreError as error:
            seen = error
        rest_s = end_s - loop.time()
        if (left := has_left(asked, seen, rest_s)) is not None:
            return left
        await asyncio.sleep(min(LOOK_EVERY_S, rest_s))


async def _ask(call: Call, operation: str, question: Question) -> Any:
    """Ask the engine, on the office's loop."""
    return await _within(call, operation, lambda: run_there(call.sidecar.store.office, question()))


async def _within(call: Call, operation: str, question: Question) -> Any:
    """Await an answer of the engine, within a bound, and no more of them at once than it can bear.

    The bound is also that of waiting for one's turn: behind four thousand questions to an engine that hangs, somebody who asks a
    leader to leave would be answered in twenty minutes.
    """
    call.sidecar.check_reached()
    if (pipe := pipe_of(call.scope)) is not None:
        pipe.waits()
    try:
        async with asyncio.timeout(_WITHIN_S), call.sidecar.asking:
            return await question()
    except TimeoutError:
        raise OutcomeUnknown(call.sidecar.board.address, operation, f"no answer within {_WITHIN_S:g} s") from None
    except ConfigError:
        call.sidecar.check_reached()  # While it waited for its turn the store was closed, and nothing is wrong with the question.
        raise


def _shown(call: Call, name: str, status: ElectionStatus | None, clients: int) -> dict[str, Any]:
    sidecar = call.sidecar
    held = sidecar.register.offices.held(name)
    here = {
        "leading": held is not None,
        "token": None if held is None else held.token,
        "standing": sidecar.stands.stands(name) or clients > 0,
        "clients": clients,
    }
    if status is None:
        status = ElectionStatus(name, None, None, None, resign_asked=False, standbys=())
    return {
        "election": name,
        "leader": shown_incumbent(status.incumbent),
        "held_for_s": _seconds(status.held_for_ns),
        "remaining_s": _seconds(status.remaining_ns),
        "resign_asked": status.resign_asked,
        "standbys": [str(holder) for holder in status.standbys],
        "here": here,
    }


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else round(ns / 1e9, 3)

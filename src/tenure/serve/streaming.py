"""Events as they happen, for as long as a client listens: ``text/event-stream``."""

import asyncio
import time
from collections.abc import Awaitable

from tenure.serve.answers import Receive, Scope, Send
from tenure.serve.hub import Pipe
from tenure.serve.routes import Call

PIPE = "tenure.pipe"  # the connection itself, as the hub has it, among the extensions of a request; our server has it


async def events(call: Call) -> None:
    """Send every event of the process, and what the page shows, from the one that is named on."""
    hub, scope = call.sidecar.hub, call.scope
    headers = dict(scope["headers"])
    last_id = call.query.get("last_event_id") or headers.get(b"last-event-id", b"").decode("latin-1") or None
    pipe = pipe_of(scope)
    client = hub.join(frozenset(call.query.get("election", ())), last_id, pipe)
    gone = asyncio.create_task(when_gone(call.receive))
    gone.add_done_callback(lambda _: client.wake(gone=True))
    try:
        await begin_stream(call.send)
        await send_block(call.send, b"retry: 1000\n\n" + hub.missed(last_id))
        # Frames are those of chunks, which HTTP/1.0 has not.
        client.writes = pipe is not None and scope["http_version"] == "1.1"
        client.wake()
        if pipe is not None:
            # Not before: what it has missed may be much, and who does not read that is one of those who do not read.
            pipe.is_stream = client.writes
        while not client.gone:
            chunk = b"" if client.writes and not hub.closed else client.take()
            if chunk is None:
                client.cut()
                break
            if chunk:
                client.sending_since_s = time.monotonic()
                await send_block(call.send, chunk)
                client.sending_since_s = None
            elif hub.closed:
                break
            else:
                await client.news.wait()
                if client.writes and not hub.closed:
                    client.news.clear()
    finally:
        hub.clients.discard(client)
        gone.cancel()
    await call.send({"type": "http.response.body", "body": b""})


def pipe_of(scope: Scope) -> Pipe | None:
    """Return the connection of a request, if the server has it for us."""
    found: Pipe | None = scope.get("extensions", {}).get(PIPE)
    return found


async def begin_stream(send: Send) -> None:
    """Say that events follow, and that no proxy is to keep them back."""
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-accel-buffering", b"no"),  # what nginx looks for
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def send_block(send: Send, block: bytes) -> None:
    """Send a part of a stream."""
    await send({"type": "http.response.body", "body": block, "more_body": True})


async def when_gone(receive: Receive) -> None:
    """Return when the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def first_of(*waiting: Awaitable[object], within_s: float | None = None) -> None:
    """Return when the first of them has, or none within that time. The others are cancelled."""
    tasks = [asyncio.ensure_future(one) for one in waiting]
    try:
        await asyncio.wait(tasks, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

"""The guard in front of an ASGI application. Runs on asyncio and on trio."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio

from tenure.errors import ConfigError, StaleToken, StoreError, UnverifiedToken
from tenure.sinks.http.header import HIGHEST, NAME, Presented
from tenure.sinks.http.refusing import Refusal, refusal_of
from tenure.sinks.marks import admit
from tenure.web.guard import Guard, unfit
from tenure.web.routes import Route, paths_of

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_NAME = NAME.lower().encode()
_POLICY_VIOLATION = 1008


class FencedASGI:
    """Lets guarded requests through to ``app`` only if their token is not stale, and answers seals.

    The handler finds what was presented in ``scope["tenure"]``, to bind a database's sink to it: that makes check and
    write one step, which this cannot. A StaleToken that such a sink raises becomes the same answer, 409. One event loop
    per middleware; connections that last (WebSockets) are refused on guarded paths.
    """

    def __init__(self, app: App, guard: Guard) -> None:
        self._app, self._guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        # A handshake is a GET, and what comes after it may write: its path alone counts.
        method = scope["method"] if kind == "http" else None
        paths = paths_of(scope.get("root_path", ""), scope["path"])
        if method is not None and self._guard.is_seal(method, paths):
            await self._seal(scope, send)
            return
        route = self._guard.route_of(method, paths)
        if route is None:
            await self._app(scope, receive, send)
        elif kind == "websocket":
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": Refusal("websocket").word})
        else:
            refusal = route if isinstance(route, Refusal) else await self._pass(route, scope, receive, send)
            if refusal is not None:
                # No longer under way: a seal need not wait until whoever was refused has read that.
                await _answer(send, refusal)

    async def _pass(self, route: Route, scope: Scope, receive: Receive, send: Send) -> Refusal | None:
        guard = self._guard
        presented = guard.judge(_values(scope), route)
        if isinstance(presented, Refusal):
            return presented
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        guard.underway.begin(presented.fence, presented.token)
        try:
            refusal = await self._admit(presented)
            if refusal is None:
                try:
                    await self._app({**scope, "tenure": presented}, receive, watched)
                except (StaleToken, UnverifiedToken) as error:
                    if begun or error.token != presented.token:
                        raise
                    refusal = refusal_of(error)
            return refusal
        finally:
            guard.underway.end(presented.fence, presented.token)

    async def _admit(self, presented: Presented) -> Refusal | None:
        guard = self._guard
        try:
            with guard.refused.counting(presented.fence):
                await admit(guard.mark, presented.fence, presented.token, guard.verify)
        except (StaleToken, UnverifiedToken) as error:
            return refusal_of(error)
        except ConfigError as error:
            return unfit(error)
        except StoreError as error:
            return Refusal("unavailable", str(error))
        return None

    async def _seal(self, scope: Scope, send: Send) -> None:
        guard = self._guard
        presented = guard.judge(_values(scope), None)
        refusal = presented if isinstance(presented, Refusal) else await self._admit(presented)
        if isinstance(presented, Presented) and refusal is None and not await self._settled(presented):
            refusal = Refusal("busy", f"waited {guard.seal_within_s:g} s", presented.token)
        if refusal is not None:
            await _answer(send, refusal)
            return
        assert isinstance(presented, Presented), "nothing else is without a refusal"
        headers = [(HIGHEST.lower().encode(), str(presented.token).encode())]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def _settled(self, presented: Presented) -> bool:
        """Wait until no request with an older token is under way in this process."""
        guard, over = self._guard, anyio.Event()
        tell = over.set
        if guard.underway.wait(presented.fence, presented.token, tell):
            return True
        try:
            with anyio.move_on_after(guard.seal_within_s):
                await over.wait()
        finally:
            guard.underway.forget(tell)
        return over.is_set()


def _values(scope: Scope) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == _NAME]


async def _answer(send: Send, refusal: Refusal) -> None:
    body = refusal.body
    headers = [(name.lower().encode(), value.encode()) for name, value in refusal.headers]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

"""Transports for httpx that follow the leader: ``httpx.AsyncClient(transport=AsyncLeaderTransport([url, url]))``.

A request goes to the node that led last. It is sent again as ``pursuit`` says, for ``within_s`` in all; then the last answer is returned, or
the last error raised. A response that is returned came from whoever led, or is no ``LeaderASGI``'s answer.

The path of a request is appended to the node's URL; its host is a placeholder, so ``http://leader/jobs`` will do. A client goes wherever
the nodes say that the leader is, and takes its headers there: nodes are trusted. From https it is never led to http.
"""

import time
from collections.abc import Sequence
from typing import Final

import anyio
import httpx

from tenure.web.pursuit import REPEATABLE, Fleet, Pursuit

__all__ = ["AsyncLeaderTransport", "LeaderTransport"]

WITHIN_S: Final = 30.0
# Raised before anything of a request has left.
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class AsyncLeaderTransport(httpx.AsyncBaseTransport):
    """For ``httpx.AsyncClient``. ``inner`` makes the connections; by default httpx's own transport."""

    def __init__(
        self, nodes: Sequence[str], *, within_s: float = WITHIN_S, inner: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._fleet, self._inner = Fleet(nodes, within_s), inner or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to the leader, wherever that is."""
        body = await request.aread()
        pursuit = Pursuit(self._fleet, repeatable=_is_repeatable(request), now_s=anyio.current_time())
        while True:
            try:
                response = await self._inner.handle_async_request(_readdressed(request, pursuit.target, body))
            except httpx.TransportError as error:
                pause_s = pursuit.failed(anyio.current_time(), sent=not isinstance(error, _NOT_SENT))
                if pause_s is None:
                    raise
            else:
                pause_s = pursuit.answered(response.status_code, response.headers, anyio.current_time())
                if pause_s is None:
                    return response
                await response.aclose()
            await anyio.sleep(pause_s)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class LeaderTransport(httpx.BaseTransport):
    """The same for ``httpx.Client``."""

    def __init__(
        self, nodes: Sequence[str], *, within_s: float = WITHIN_S, inner: httpx.BaseTransport | None = None
    ) -> None:
        self._fleet, self._inner = Fleet(nodes, within_s), inner or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to the leader, wherever that is."""
        body = request.read()
        pursuit = Pursuit(self._fleet, repeatable=_is_repeatable(request), now_s=time.monotonic())
        while True:
            try:
                response = self._inner.handle_request(_readdressed(request, pursuit.target, body))
            except httpx.TransportError as error:
                pause_s = pursuit.failed(time.monotonic(), sent=not isinstance(error, _NOT_SENT))
                if pause_s is None:
                    raise
            else:
                pause_s = pursuit.answered(response.status_code, response.headers, time.monotonic())
                if pause_s is None:
                    return response
                response.close()
            time.sleep(pause_s)

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()


def _is_repeatable(request: httpx.Request) -> bool:
    return request.method.upper() in REPEATABLE or "Idempotency-Key" in request.headers


def _readdressed(request: httpx.Request, base: str, body: bytes) -> httpx.Request:
    url = httpx.URL(base + request.url.raw_path.decode("ascii"))
    headers = [
        (name, value) for name, value in request.headers.raw if name.lower() not in (b"host", b"transfer-encoding")
    ]
    return httpx.Request(request.method, url, headers=headers, content=body, extensions=request.extensions)

"""An answer over HTTP to who asks whether this process leads. It knows nothing else, and asks nobody."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tenure.errors import ConfigError
from tenure.office.tenure import Tenure

_OPTION: Final = "--ready-http"
_HEAD_BYTES_MAX: Final = 8 * 1024
_WITHIN_S: Final = 5.0  # A probe says its few lines at once, or has gone.
_ASKING_MAX: Final = 64
_METHODS: Final = (b"GET", b"HEAD", b"OPTIONS")  # The last is what HAProxy asks by.
_WORDS: Final = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class ReadyServer:
    """``/`` and ``/ready``: 200 while this process leads and its command runs, 503 otherwise. ``/live``: 200 in any case."""

    def __init__(self, host: str, port: int, election: str, leading: Callable[[], Tenure | None]) -> None:
        self._host, self._port, self._election, self._leading = host, port, election, leading
        self._server: asyncio.Server | None = None
        self._asking = 0

    async def open(self) -> None:
        """Listen. Raises ConfigError if that cannot be."""
        try:
            self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=_HEAD_BYTES_MAX)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
            where = f"{self._host}:{self._port}"
            raise ConfigError(_OPTION, where, f"cannot be listened on ({why}): choose another") from None

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._asking += 1
        try:
            if self._asking <= _ASKING_MAX:
                with suppress(TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
                    async with asyncio.timeout(_WITHIN_S):
                        head = await reader.readuntil(b"\r\n\r\n")
                        writer.write(self._answer(head))  # Judged at the last instant: it may have been frozen before.
                        await writer.drain()
        finally:
            self._asking -= 1
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.split(b" ", 1)[0].partition(b"?")[0]
        term = self._leading()
        if method not in _METHODS:
            code = 405
        elif path == b"/live":
            code = 200
        elif path in {b"/", b"/ready"}:
            code = 503 if term is None else 200
        else:
            code = 404
        told = {"election": self._election, "leading": term is not None, "token": term and term.token}
        body = f"{json.dumps(told)}\n".encode()
        lines = (
            f"HTTP/1.1 {code} {_WORDS[code]}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            "Connection: close",
            "\r\n",
        )
        return "\r\n".join(lines).encode() + (b"" if method == b"HEAD" else body)


def listening_address(text: str) -> tuple[str, int]:
    """Return the host and port that ``HOST:PORT``, ``:PORT`` or ``PORT`` means; without a host it is this machine's own."""
    host, _, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16) or (":" in host and "[" not in text):
        rule = "must be HOST:PORT, [IPV6]:PORT or :PORT, with a port from 1 to 65535"
        raise ConfigError(_OPTION, text, rule)
    return host or "127.0.0.1", int(port)

"""A small service that writes what it is sent into SQLite, bound to the token that came with it; in both kinds."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from anyio import to_thread

from tenure.sinks import Bound, SQLiteSink


class Ledger:
    def __init__(self, path: Path) -> None:
        self.path, self.cut_off = path, 0
        with closing(self.connect()) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE IF NOT EXISTS entries (entry INTEGER PRIMARY KEY, fence TEXT, value TEXT)")
        self.sink = SQLiteSink(self.connect)

    def connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=30)
        connection.execute("PRAGMA synchronous = OFF")  # No test takes the power away.
        return connection

    def add(self, term: Bound, value: str) -> None:
        with self.sink.transaction(term) as connection:
            connection.execute("INSERT INTO entries (fence, value) VALUES (?, ?)", (term.fence, value))

    def values(self, fence: str) -> list[str]:
        with closing(self.connect()) as connection:
            query = "SELECT value FROM entries WHERE fence = ? ORDER BY entry"
            return [value for (value,) in connection.execute(query, (fence,))]

    def wsgi(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length)
        if len(body) < length:  # Whoever sent it is gone, in the middle of it.
            self.cut_off += 1
            start_response("400 Bad Request", [("Content-Length", "0")])
            return []
        self.add(environ["tenure"], body.decode())
        start_response("200 OK", [("Content-Length", "0")])
        return []

    async def asgi(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.cut_off += 1
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        await to_thread.run_sync(self.add, scope["tenure"], body.decode())
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

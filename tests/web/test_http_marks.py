"""Marks behind a service: how often they write, what a restart and a killed server leave, and several processes."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from tenure.errors import ConfigError, Refused, StaleToken, StoreError, UnverifiedToken
from tenure.model import TOKEN_MAX, Token
from tenure.sinks import FileMark, Mark, MemoryMark, Orders, PsycopgSink, SQLiteMark
from tenure.sinks.http import Presented
from tenure.sinks.http.header import value_of
from tenure.sinks.marks import admit, connect_durably
from tenure.web import FencedASGI, FencedWSGI, Guard, Route

FENCE = "etcd://h1/billing"


def environ(token: int) -> dict[str, Any]:
    value = value_of(Presented(Token(token), FENCE))
    return {"REQUEST_METHOD": "POST", "PATH_INFO": "/entries", "HTTP_TENURE_TOKEN": value}


def ask(app: FencedWSGI, token: int) -> str:
    told: list[str] = []
    parts = app(environ(token), lambda status, *_: told.append(status))  # type: ignore[arg-type]
    list(parts)
    getattr(parts, "close", lambda: None)()
    return told[0]


def answering(_: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [b""]


def frames(path: Path) -> int:
    """How many pages were ever written to the log: it is never reset while one connection is open."""
    return Path(f"{path}-wal").stat().st_size


def test_a_durable_mark_is_written_once_for_every_new_token_and_never_for_a_known_one(tmp_path: Path) -> None:
    path = tmp_path / "mark.db"
    mark = SQLiteMark(path)
    app = FencedWSGI(answering, Guard([Route("/", FENCE)], mark))
    sizes = []
    with closing(sqlite3.connect(path)) as keeper:  # The log stays as long as somebody has the file open.
        keeper.execute("PRAGMA journal_mode = WAL")
        assert ask(app, 1) == "200 OK"
        sizes.append(frames(path))
        for token in (1, 2, 3):
            for _ in range(50):
                assert ask(app, token) == "200 OK"
            assert ask(app, token - 1 or 1) == ("409 Conflict" if token > 1 else "200 OK")
            sizes.append(frames(path))
    first, known, second, third = sizes
    assert known == first, "a known token was written"
    assert second - known == third - second, "one write for each new token"
    page = 4096 + 24
    assert second - known == page
    mark.close()


def test_a_mark_that_was_acknowledged_is_on_the_disk_and_readers_wait_for_nobody(tmp_path: Path) -> None:
    with closing(connect_durably(str(tmp_path / "mark.db"))) as connection:
        # 2 is FULL: without it, the log is not synced when a write is acknowledged.
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


MARKS: dict[str, Any] = {
    "sqlite": lambda folder: SQLiteMark(folder / "mark.db"),
    "file": FileMark,
    "memory": lambda _: MemoryMark(),
}


@pytest.mark.parametrize("name", MARKS)
def test_every_mark_keeps_the_rule(name: str, tmp_path: Path) -> None:
    mark: Mark = MARKS[name](tmp_path)
    for token in (3, 3, 2**53 + 1, TOKEN_MAX):
        mark.admit(FENCE, Token(token))
    for token in (1, 2**53, TOKEN_MAX - 1):
        with pytest.raises(StaleToken) as stale:
            mark.admit(FENCE, Token(token))
        assert (stale.value.token, stale.value.highest) == (token, TOKEN_MAX)
    mark.admit("another", Token(1))
    with pytest.raises(UnverifiedToken) as unverified:
        mark.admit("another", Token(2), known_only=True)
    assert (unverified.value.token, unverified.value.highest) == (2, 1)
    mark.admit("another", Token(1), known_only=True)
    for token in (0, -1, TOKEN_MAX + 1):
        with pytest.raises((ConfigError, StaleToken)):
            mark.admit("third", Token(token))
    mark.admit("third", Token(1))
    anyio.run(admit, mark, "third", Token(2), lambda *_: True)
    with pytest.raises(StaleToken):
        anyio.run(admit, mark, "third", Token(1), None)


@pytest.mark.parametrize("name", MARKS)
@pytest.mark.parametrize("nonsense", ["7", 7.0, 7.5, True, None])
def test_what_only_compares_as_a_token_is_kept_by_no_mark(nonsense: Any, name: str, tmp_path: Path) -> None:
    mark: Mark = MARKS[name](tmp_path)
    for known in (None, 1, 7):  # Nothing yet; and where it would compare as equal.
        if known is not None:
            mark.admit(FENCE, Token(known))
        with pytest.raises(ConfigError, match=r"token = .*: must be an integer"):
            Orders(mark).accept(SimpleNamespace(fence=FENCE, token=nonsense))
    mark.admit(FENCE, Token(7))
    with pytest.raises(StaleToken, match="highest seen is 7"):
        mark.admit(FENCE, Token(6))


@pytest.mark.parametrize("name", ["sqlite", "file"])
def test_marks_of_several_processes_are_one(name: str, tmp_path: Path) -> None:
    first, second = (MARKS[name](tmp_path) for _ in range(2))
    first.admit(FENCE, Token(3))
    second.admit(FENCE, Token(5))
    with pytest.raises(StaleToken):
        first.admit(FENCE, Token(3))  # What it had seen itself does not count.
    third = MARKS[name](tmp_path)
    with pytest.raises(StaleToken, match="highest seen is 5"):
        third.admit(FENCE, Token(4))


def test_a_mark_of_rubbish_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "mark.db").write_bytes(b"rubbish " * 1000)
    with pytest.raises(StoreError, match="not a database"):
        SQLiteMark(tmp_path / "mark.db").admit(FENCE, Token(1))
    with pytest.raises(StoreError, match="unable to open"):
        SQLiteMark(tmp_path / "missing" / "mark.db").admit(FENCE, Token(1))
    with pytest.raises(Refused):
        FileMark(tmp_path / "missing").admit(FENCE, Token(1))


DIES = """
import os, signal, sys
from tests.web.test_http_marks import FENCE, ask
from tenure.sinks import SQLiteMark
from tenure.web import FencedWSGI, Guard, Route

def handler(environ, start_response):
    os.kill(os.getpid(), signal.SIGKILL)

ask(FencedWSGI(handler, Guard([Route("/", FENCE)], SQLiteMark(sys.argv[1]))), 5)
"""


def test_a_server_that_dies_in_a_handler_leaves_its_mark_ahead_and_never_behind(tmp_path: Path) -> None:
    path = tmp_path / "mark.db"
    died = subprocess.run(
        [sys.executable, "-c", DIES, str(path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
    )
    assert died.returncode == -signal.SIGKILL
    app = FencedWSGI(answering, Guard([Route("/", FENCE)], SQLiteMark(path)))
    assert [ask(app, token) for token in (4, 5)] == ["409 Conflict", "200 OK"]


class Remote:
    """As a mark in a database with an async client would be."""

    def __init__(self) -> None:
        self.inner = MemoryMark()

    async def admit(self, fence: str, token: Token, *, known_only: bool = False) -> None:
        await anyio.lowlevel.checkpoint()
        self.inner.admit(fence, token, known_only=known_only)


@pytest.mark.parametrize("path", ["/entries", "/.well-known/tenure/seal"])
def test_a_fence_whose_name_is_too_long_for_the_mark_is_malformed(path: str) -> None:
    told: list[tuple[int, bytes]] = []
    with PsycopgSink("postgresql://127.0.0.1:1/nowhere") as mark:
        guard = Guard([Route("/", lambda _: True)], mark)
        value = value_of(Presented(Token(7), "x" * 1001))

        def start(status: str, _: Any) -> None:
            told.append((int(status[:3]), b""))

        request = {"REQUEST_METHOD": "POST", "PATH_INFO": path, "HTTP_TENURE_TOKEN": value}
        [body] = FencedWSGI(_never, guard)(request, start)  # type: ignore[arg-type]
        told.append((0, body))

        async def send(message: Any) -> None:
            told.append((message.get("status", 0), message.get("body", b"")))

        async def run() -> None:
            headers = [(b"tenure-token", value.encode())]
            scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
            await FencedASGI(_never, guard)(scope, _never, send)

        anyio.run(run)
    assert [status for status, _ in told] == [400, 0, 400, 0]
    assert told[1] == told[3]
    assert b"urn:tenure:malformed" in told[1][1]
    assert b"the fence must have a name of up to 1000 bytes" in told[1][1]


def _never(*_: Any) -> Any:
    raise AssertionError("this was let through")


def test_what_is_wrong_with_the_mark_itself_is_not_put_down_to_the_request() -> None:
    mark = PsycopgSink("postgresql://127.0.0.1:1/nowhere")
    mark.close()
    with pytest.raises(ConfigError, match="must not be used after it was closed"):
        ask(FencedWSGI(_never, Guard([Route("/", FENCE)], mark)), 7)


def test_a_mark_may_be_asked_with_await(tmp_path: Path) -> None:
    del tmp_path
    statuses = []

    async def app(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    async def receive() -> Any:
        return {}

    async def run() -> None:
        fenced = FencedASGI(app, Guard([Route("/", FENCE)], Remote(), verify=lambda _, token: token < 9))
        for token in (2, 1, 2, 9):
            value = value_of(Presented(Token(token), FENCE)).encode()
            headers = [(b"tenure-token", value)]
            await fenced({"type": "http", "method": "POST", "path": "/x", "headers": headers}, receive, send)

    anyio.run(run)
    assert statuses == [200, 409, 200, 403]

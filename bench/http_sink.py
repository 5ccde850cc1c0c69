"""What the middleware costs a request: the same application with and without it, called as a server calls it.

No socket is in between: that would hide microseconds behind milliseconds. Blocks of requests are interleaved, and the
difference of their medians is what the guard takes: reading the header, its signature where there is one, the comparison with the
mark in memory, and the count of requests under way. A leader's web token is one text for a second, so a service verifies it
once and then knows it; what it takes the first time is a figure of its own.

A durable mark is written once for each new token: exactly once, for a mark that is not written is not durable. SQLite's writes
are counted by the pages in its log, and those of PostgreSQL by its transaction numbers, which only whoever writes is given.
"""

import asyncio
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from rows import Figures, NotMeasured, exactly

from tenure.model import Token
from tenure.sinks import MemoryMark, PostgresSink, PsycopgSink, SQLiteMark
from tenure.sinks.http import JwtKey, JwtSigner, Presented, Secret
from tenure.sinks.http.header import value_of
from tenure.sinks.http.jwt_signing import JwtKeys
from tenure.testing.engines import MissingEngine, PostgresCluster
from tenure.web import FencedASGI, FencedWSGI, Guard, Route

ROUNDS, BLOCK = 60, 100
FENCE = "etcd://h1,h2,h3/billing/close"
SECRET = "a secret of sixteen bytes"
_TOKENS = 20


async def _asgi(_: Any, __: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


def _wsgi(_: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [b"ok"]


def _value(token: int) -> str:
    return value_of(Secret(SECRET).sign(Presented(Token(token), FENCE), lifetime_s=60))


def _web_keys() -> tuple[JwtSigner, JwtKey]:
    made = ec.generate_private_key(ec.SECP256R1())
    pem, none = serialization.Encoding.PEM, serialization.NoEncryption()
    private = made.private_bytes(pem, serialization.PrivateFormat.PKCS8, none)
    public = made.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    return JwtSigner.private(private), JwtKey.public(public)


async def _receive() -> Any:
    return {"type": "http.request", "body": b""}


async def _send(message: Any) -> None:
    assert message.get("status", 200) == 200, message  # To refuse would be quicker.


def _over_asgi(app: Any, value: str = "") -> Callable[[], None]:
    value = value or _value(7)
    headers = [(b"host", b"x"), (b"content-type", b"application/json"), (b"tenure-token", value.encode())]

    async def block() -> None:
        for _ in range(BLOCK):
            await app({"type": "http", "method": "POST", "path": "/bills/7", "headers": headers}, _receive, _send)

    runner = asyncio.Runner()
    return lambda: runner.run(block())


def _start(status: str, *_: Any) -> None:
    assert status.startswith("200"), status


def _ask(app: Any, value: str) -> None:
    parts = app({"REQUEST_METHOD": "POST", "PATH_INFO": "/bills/7", "HTTP_TENURE_TOKEN": value}, _start)
    list(parts)
    getattr(parts, "close", lambda: None)()


def _over_wsgi(app: Any, value: str = "") -> Callable[[], None]:
    value = value or _value(7)

    def block() -> None:
        for _ in range(BLOCK):
            _ask(app, value)

    return block


def _guard(*secrets: str, keys: list[JwtKey] | None = None) -> Guard:
    return Guard([Route("/bills", FENCE)], MemoryMark(), secrets=secrets or None, keys=keys)


def _microseconds() -> dict[str, float]:
    signer, key = _web_keys()
    value = signer.header_value(Presented(Token(7), FENCE), lifetime_s=60)
    blocks = {
        "asgi": _over_asgi(_asgi),
        "asgi, guarded": _over_asgi(FencedASGI(_asgi, _guard())),
        "asgi, signed": _over_asgi(FencedASGI(_asgi, _guard(SECRET))),
        "asgi, web token": _over_asgi(FencedASGI(_asgi, _guard(keys=[key])), value),
        "wsgi": _over_wsgi(_wsgi),
        "wsgi, guarded": _over_wsgi(FencedWSGI(_wsgi, _guard())),
        "wsgi, signed": _over_wsgi(FencedWSGI(_wsgi, _guard(SECRET))),
        "wsgi, web token": _over_wsgi(FencedWSGI(_wsgi, _guard(keys=[key])), value),
    }
    taken: dict[str, list[float]] = {name: [] for name in blocks}
    for _ in range(ROUNDS):
        for name in random.sample(list(blocks), len(blocks)):
            began = time.perf_counter_ns()
            blocks[name]()
            taken[name].append((time.perf_counter_ns() - began) / BLOCK / 1e3)
    return {name: median(times) for name, times in taken.items()}


def _microseconds_to_verify() -> float:
    signer, key = _web_keys()
    values = [signer.header_value(Presented(Token(token), FENCE), lifetime_s=60) for token in range(1, 1 + BLOCK)]
    keys, taken = JwtKeys([key]), []
    for value in values:
        began = time.perf_counter_ns()
        keys.judge(value, 0)
        taken.append((time.perf_counter_ns() - began) / 1e3)
    return median(taken)


def _writes_per_token() -> float:
    """Count the pages in the log of the database that the mark is kept in: one for every write."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mark.db"
        log = Path(f"{path}-wal")
        app = FencedWSGI(_wsgi, Guard([Route("/bills", FENCE)], SQLiteMark(path), secrets=[SECRET]))
        with closing(sqlite3.connect(path)) as keeper:
            keeper.execute("PRAGMA journal_mode = WAL")
            _ask(app, _value(1))
            before = log.stat().st_size
            for value in _new_values():
                _ask(app, value)
            return (log.stat().st_size - before) / (4096 + 24) / _TOKENS


def _new_values() -> list[str]:
    """Return what comes in with requests of one leader after the other, ten of each."""
    return [_value(token) for token in range(2, 2 + _TOKENS) for _ in range(10)]


def _transactions(cluster: PostgresCluster) -> int:
    """Return the number that the next transaction is given that writes something."""
    return int(cluster.sql("SELECT pg_snapshot_xmax(pg_current_snapshot())"))


def _writes_per_token_threads(cluster: PostgresCluster) -> float:
    with PsycopgSink(cluster.url) as mark:
        app = FencedWSGI(_wsgi, Guard([Route("/bills", FENCE)], mark, secrets=[SECRET]))
        _ask(app, _value(1))
        before = _transactions(cluster)
        for value in _new_values():
            _ask(app, value)
        return (_transactions(cluster) - before) / _TOKENS


async def _writes_per_token_loop(cluster: PostgresCluster) -> float:
    async def ask(app: FencedASGI, value: str) -> None:
        headers = [(b"host", b"x"), (b"tenure-token", value.encode())]
        await app({"type": "http", "method": "POST", "path": "/bills/7", "headers": headers}, _receive, _send)

    async with PostgresSink(cluster.url) as mark:
        app = FencedASGI(_asgi, Guard([Route("/bills", FENCE)], mark, secrets=[SECRET]))
        await ask(app, _value(1))
        before = _transactions(cluster)
        for value in _new_values():
            await ask(app, value)
        return (_transactions(cluster) - before) / _TOKENS


def _durable_writes() -> Figures:
    what = "http: durable writes for a new token, mark in"
    yield exactly(f"{what} SQLite", _writes_per_token(), 1)
    kinds = [f"{what} PostgreSQL by asyncpg", f"{what} PostgreSQL by psycopg"]
    try:
        with PostgresCluster() as cluster:
            yield exactly(kinds[0], asyncio.run(_writes_per_token_loop(cluster)), 1)
        with PostgresCluster() as cluster:
            yield exactly(kinds[1], _writes_per_token_threads(cluster), 1)
    except MissingEngine as missing:
        for kind in kinds:
            yield NotMeasured(kind, str(missing))


def figures() -> Figures:
    us = _microseconds()
    for kind in ("asgi", "wsgi"):
        for how in ("guarded", "signed", "web token"):
            yield f"http: {kind} middleware, {how}, mark in memory", us[f"{kind}, {how}"] - us[kind], 100, "us", False
    yield "http: a web token that was not seen before, ES256", _microseconds_to_verify(), 1000, "us", False
    yield from _durable_writes()

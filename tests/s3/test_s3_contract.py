"""The S3 sink keeps the contract of sinks."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from anyio import to_thread

from tenure.sinks import Bound, S3Sink, Verify
from tenure.testing import SINK_CONTRACT, check_sink_promise
from tests.s3.conftest import Served, connect

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# Dies with the data put, in the place of the swap that makes it count.
CRASH = """
import os, signal, sys
from types import SimpleNamespace
import anyio
from tests.s3.conftest import connect
from tenure.sinks import S3Sink
from tenure.sinks.s3.bucket import Bucket

url, bucket, fence, token, name, value = sys.argv[1:]
Bucket.swapped = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
sink = S3Sink(bucket, "books/", client=connect(url))
anyio.run(sink.bind(SimpleNamespace(fence=fence, token=int(token))).put, name, value.encode())
"""


def added(value: str, content: bytes | None) -> bytes:
    return json.dumps([*json.loads(content or b"[]"), value]).encode()


class S3Rig:
    """One object per fence, with a list of values."""

    def __init__(self, served: Served, bucket: str) -> None:
        self.served, self.bucket = served, bucket
        self.client = connect(served.url)  # Shared: it takes a while to make, and remembers nothing of the bucket.

    @asynccontextmanager
    async def open(self, verify: Verify | None = None) -> AsyncIterator[S3Sink]:
        yield S3Sink(self.bucket, "books/", client=self.client, verify=verify)

    @staticmethod
    def name_of(fence: str) -> str:
        return hashlib.sha256(fence.encode()).hexdigest()

    async def write(self, client: S3Sink, term: Bound, value: str) -> None:
        await client.bind(term).update(self.name_of(term.fence), partial(added, value))

    async def read_all(self, fence: str) -> list[str]:
        sink = S3Sink(self.bucket, "books/", client=self.client)
        return list(json.loads(await sink.get(self.name_of(fence)) or b"[]"))

    async def crash_between_check_and_write(self, term: Bound, value: str) -> None:
        words = (self.served.url, self.bucket, term.fence, str(term.token), self.name_of(term.fence), value)
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        crash = partial(subprocess.run, [sys.executable, "-c", CRASH, *words], env=environment, check=False)
        assert (await to_thread.run_sync(crash)).returncode == -9

    async def restart(self) -> None:
        await to_thread.run_sync(self.served.restart)


@pytest.mark.parametrize("promise", SINK_CONTRACT)
async def test_the_s3_sink_keeps_each_promise(promise: str, served: Served, bucket: str) -> None:
    @asynccontextmanager
    async def make() -> AsyncIterator[S3Rig]:
        yield S3Rig(served, bucket)

    await check_sink_promise(promise, make)

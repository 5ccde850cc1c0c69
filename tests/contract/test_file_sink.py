"""The file sink keeps the contract, on asyncio and trio."""

import hashlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from anyio import to_thread

from tenure.sinks import Bound, FileSink, Verify
from tenure.testing import SINK_CONTRACT, check_sink, check_sink_promise

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# Dies with the check made and the new content on the disk, in the place of the rename that counts.
CRASH = """
import os, signal, sys
from types import SimpleNamespace
from tenure.sinks import FileSink

folder, fence, token, name, value = sys.argv[1:]
os.rename = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
FileSink(folder).blocking(SimpleNamespace(fence=fence, token=int(token))).write_text(name, value)
"""


def added(value: str, content: bytes | None) -> bytes:
    return json.dumps([*json.loads(content or b"[]"), value]).encode()


class FileRig:
    """One file per fence, with a list of values. Its name is a digest, as the names of fences are odd."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @asynccontextmanager
    async def open(self, verify: Verify | None = None) -> AsyncIterator[FileSink]:
        yield FileSink(self.folder, verify=verify, wait_s=30)

    @staticmethod
    def name_of(fence: str) -> str:
        return hashlib.sha256(fence.encode()).hexdigest()

    async def write(self, client: FileSink, term: Bound, value: str) -> None:
        await client.bind(term).update(self.name_of(term.fence), partial(added, value))

    async def read_all(self, fence: str) -> list[str]:
        file = self.folder / self.name_of(fence)
        return list(json.loads(file.read_text())) if file.exists() else []

    async def crash_between_check_and_write(self, term: Bound, value: str) -> None:
        words = (str(self.folder), term.fence, str(term.token), self.name_of(term.fence), value)
        crash = partial(subprocess.run, [sys.executable, "-c", CRASH, *words], check=False)
        assert (await to_thread.run_sync(crash)).returncode == -9

    async def restart(self) -> None:
        pass  # There is no engine.


Make = Callable[[], AbstractAsyncContextManager[FileRig]]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    @asynccontextmanager
    async def made() -> AsyncIterator[FileRig]:
        yield FileRig(tmp_path)

    return made


@pytest.mark.parametrize("promise", SINK_CONTRACT)
async def test_the_file_sink_keeps_each_promise(promise: str, make: Make) -> None:
    await check_sink_promise(promise, make)


async def test_the_file_sink_keeps_the_contract_as_a_whole(make: Make) -> None:
    await check_sink(make)

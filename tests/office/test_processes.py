"""The office and its process: killed, forked, left."""

import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.parametrize("backend", ["asyncio", "trio"])

KILLED = """
import anyio, time, sys
from tenure.election import Election
from tenure.stores.memory import MemoryEngine, MemoryStore
async def main():
    engine = MemoryEngine()
    async def body(term):
        engine.delete("x")
        print(term.token, flush=True)
        while True:
            time.sleep(1)
    await Election(MemoryStore(engine), "x", ttl=0.5, on_overstay="kill").lead(body)
anyio.run(main, backend=sys.argv[1])
"""


def test_with_kill_a_process_whose_body_overstays_is_gone(backend: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", KILLED, backend], capture_output=True, text=True, check=False, timeout=20
    )
    assert run.stdout == "1\n"
    assert run.returncode == -9


FORKED = """
import anyio, os, sys
from tenure.election import Election
from tenure.errors import ConfigError
from tenure.stores.memory import MemoryStore
store = MemoryStore()
before = Election(store, "x", ttl=5)
async def stand(election):
    async with election.once() as term:
        return term.holder.pid
assert anyio.run(stand, before) == os.getpid()
child = os.fork()
if child == 0:
    try:
        anyio.run(stand, before)
    except ConfigError as refused:
        assert "after the fork" in str(refused)
    else:
        os._exit(1)
    os._exit(0 if anyio.run(stand, Election(MemoryStore(), "x", ttl=5)) == os.getpid() else 2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert anyio.run(stand, before) == os.getpid()
"""


def test_a_fork_shares_neither_office_nor_holder(backend: str) -> None:
    del backend
    run = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=False, timeout=30)
    assert (run.returncode, run.stderr) == (0, "")


def test_the_interpreter_leaves_at_once(backend: str) -> None:
    leave = "import anyio,sys\nfrom tenure.election import Election\nfrom tenure.stores.memory import MemoryStore\n"
    leave += "async def main():\n  async with Election(MemoryStore(),'x',ttl=60).once():\n    sys.exit(3)\n"
    began = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-c", leave + f"anyio.run(main, backend={backend!r})"],
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert run.returncode == 3
    assert time.monotonic() - began < 5

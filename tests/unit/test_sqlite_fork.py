"""A store and a fork: the child is told to open its own, and can; no lock and no connection is shared."""

import subprocess
import sys
from pathlib import Path

FORK = """
import asyncio, os, sys, threading
from tenure.errors import ConfigError
from tenure.model import Bid, Grant, Holder, Wait
from tenure.stores.sqlite import SQLiteStore

loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()

def run(work):
    return asyncio.run_coroutine_threadsafe(work, loop).result(60)

async def in_the_child(inherited, bid):
    try:
        await inherited.read("e")
    except ConfigError as error:
        assert "open it again here" in str(error), error
    else:
        raise AssertionError("the store of the parent was used")
    async with SQLiteStore(sys.argv[1]) as store:
        wait = await store.claim(bid)
        assert isinstance(wait, Wait), wait
        # What SQLite remembers of the parent's locks would keep it from taking its own.
        inode = f":{os.stat(sys.argv[1]).st_ino} "
        assert any(f" {os.getpid()} " in line and inode in line for line in open("/proc/locks")), "no lock of its own"
        os.write(ready[1], b".")
        while not isinstance(wait, Grant):
            await store.changed(wait)
            wait = await store.claim(bid)
        await store.release(bid)
        print("child took office", wait.token, flush=True)

store = SQLiteStore(sys.argv[1])
run(store.__aenter__())
mine = Bid("e", Holder.fresh(), 1, 10**10)
first = run(store.claim(mine))
watch = asyncio.run_coroutine_threadsafe(store.changed(run(store.claim(Bid("e", Holder.fresh(), 1, 10**10)))), loop)
ready = os.pipe()
child = os.fork()
if child == 0:
    asyncio.run(in_the_child(store, Bid("e", Holder.fresh(), 1, 10**10)))
    sys.exit(0)  # The interpreter clears up on its way out, also what it inherited.
os.close(ready[1])
assert os.read(ready[0], 1), "the child has failed"
assert run(store.renew(first)) == first
run(store.release(mine))
watch.result(60)
assert os.waitpid(child, 0)[1] == 0
again = run(store.claim(Bid("e", mine.holder, 2, 10**10)))
run(store.__aexit__(None, None, None))
print("parent took office", again.token, os.listdir(os.path.dirname(sys.argv[1])))
"""


def test_a_fork_opens_the_file_anew_and_both_go_on(tmp_path: Path) -> None:
    # Python warns of forks among threads since 3.12. Servers that preload an application do it all the same.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK, str(tmp_path / "x.db")]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert answer.stderr == ""
    assert answer.stdout.splitlines() == ["child took office 2", "parent took office 3 ['x.db']"]


STUCK_FORK = """
import asyncio, os, pathlib, sys
from tenure.errors import ConfigError
from tenure.stores.sqlite import Host, SQLiteStore
from tenure.stores.sqlite.desk import Desk

async def use():
    async with SQLiteStore(sys.argv[1]) as store:
        await store.read("e")

desk = Desk(pathlib.Path(sys.argv[1]), "sqlite://", lambda: Host("b", "t"))
desk.open_first()
with desk.at_work("a transaction on a disk that hangs"):
    child = os.fork()
if child == 0:
    try:
        asyncio.run(use())
    except ConfigError as error:
        print(error, flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
asyncio.run(use())
print("the parent goes on")
"""


def test_a_fork_in_the_middle_of_a_transaction_may_not_open_the_file_at_all(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STUCK_FORK, str(tmp_path / "x.db")]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert answer.stderr == ""
    refusal, went_on = answer.stdout.splitlines()
    assert "could not be closed in time: use spawn" in refusal
    assert went_on == "the parent goes on"

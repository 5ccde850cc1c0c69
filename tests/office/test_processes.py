"""The office and its process: killed, forked, left."""

import subprocess
import sys
from pathlib import Path

import pytest

on_both = pytest.mark.parametrize("backend", ["asyncio", "trio"])

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
    await Election(MemoryStore(engine), "x", ttl=2, on_overstay="kill").lead(body)
anyio.run(main, backend=sys.argv[1])
"""


@on_both
def test_with_kill_a_process_whose_body_overstays_is_gone(backend: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", KILLED, backend], capture_output=True, text=True, check=False, timeout=20
    )
    assert run.stdout == "1\n"
    assert run.returncode == -9


# It is killed a quarter of its grace before its validity ends: so much may a busy machine be late by.
IGNORES = """
import sys, time
from tenure import sync
from tenure.timing import Timing
from tenure.stores.memory import MemoryStore
def body(term):
    term.give_up()
    print(term._term.valid_until, flush=True)
    while True:
        time.sleep(0.005)
        print(time.clock_gettime_ns(time.CLOCK_BOOTTIME), flush=True)
timing = Timing.of(ttl=4, heartbeat=0.5, grace=2.5)
sync.Election(MemoryStore(), "x", timing=timing, on_overstay="kill").lead(body)
"""


def test_with_kill_a_process_that_ignores_the_stop_is_gone_before_its_validity_ends() -> None:
    run = subprocess.run([sys.executable, "-c", IGNORES], capture_output=True, text=True, check=False, timeout=20)
    valid_until, *seen = map(int, run.stdout.split())
    assert run.returncode == -9
    assert len(seen) > 10
    assert max(seen) < valid_until


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


def test_a_fork_shares_neither_office_nor_holder() -> None:
    run = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=False, timeout=30)
    assert (run.returncode, run.stderr) == (0, "")


PRELOADED = """
import multiprocessing, os, sys
from tenure import sync
from tenure.errors import ConfigError
url = sys.argv[1]
closed, opened = sync.open_store(url), sync.open_store(url)     # made by the master, before it forks its workers
opened.__enter__()
preloaded = sync.Election(opened, "master", ttl=30)

def refused(act):
    try:
        act()
    except ConfigError as error:
        return "make it anew after the fork" in str(error)
    return False

def work(number, answers):
    assert refused(closed.__enter__)
    assert refused(lambda: preloaded.lead(lambda term: None))
    assert refused(preloaded.incumbent)
    with sync.open_store(url) as store, sync.Election(store, f"worker/{number}", ttl=30).once() as term:
        answers.put((term.holder.pid, str(term.holder)))

with preloaded.once() as term:
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    workers = [fork.Process(target=work, args=[number, answers]) for number in range(3)]
    for worker in workers:
        worker.start()
    seen = dict(answers.get(timeout=20) for _ in workers)
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert sorted(seen) == sorted(worker.pid for worker in workers)
    assert len({*seen.values(), str(term.holder)}) == 4
    child = os.fork()                                           # a child that runs on in the master's block
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert preloaded.incumbent().token == term.token        # it took nothing away
    else:
        refusals = [refused(term.resign), refused(lambda: term.progress(1))]
        os._exit(7 if refusals == [True, True] else 1)
assert preloaded.incumbent() is None
opened.__exit__(None, None, None)
print("done")
"""


def test_workers_that_were_forked_after_a_preload_stand_by_themselves_and_take_nothing_from_the_master(
    tmp_path: Path,
) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PRELOADED, f"sqlite://{tmp_path / 'x.db'}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "done\n", "")


FALLS_OUT = """
import os, sys
from tenure import sync
from tenure.errors import ConfigError
from tenure.stores.memory import MemoryStore
election = sync.Election(MemoryStore(), "x", ttl=30)
child = None
try:
    with election.once() as term:
        child = os.fork()
except ConfigError as refused:
    os._exit(7 if child == 0 and "after the fork" in str(refused) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


def test_a_child_that_falls_out_of_its_parents_block_is_refused_instead_of_waiting_for_ever() -> None:
    run = subprocess.run([sys.executable, "-c", FALLS_OUT], capture_output=True, text=True, check=False, timeout=30)
    assert (run.returncode, run.stderr) == (0, "")


@on_both
def test_the_interpreter_leaves_at_once(backend: str) -> None:
    leave = "import anyio,sys\nfrom tenure.election import Election\nfrom tenure.stores.memory import MemoryStore\n"
    leave += "async def main():\n  async with Election(MemoryStore(),'x',ttl=60).once():\n    sys.exit(3)\n"
    run = subprocess.run(
        [sys.executable, "-c", leave + f"anyio.run(main, backend={backend!r})"],
        capture_output=True,
        check=False,
        timeout=30,  # half of the lease, which whoever did not leave at once would wait for
    )
    assert run.returncode == 3

"""A fork of a process that has opened something of ZooKeeper: it is told to open it again, and leaves it alone."""

import subprocess
import sys

import pytest

from tenure.testing.engines import ZooKeeperEnsemble

PROGRAM = """
import asyncio, os, sys
from types import SimpleNamespace
from tenure.errors import ConfigError
from tenure.model import Bid, Holder
from tenure.sinks.zookeeper import ZooKeeperSink
from tenure.stores.zookeeper import from_url

BID = Bid("forked", Holder.fresh(), 1, 3 * 10**9)
TERM = SimpleNamespace(fence="forked", token=1)
store, sink = from_url(sys.argv[1]), ZooKeeperSink(sys.argv[1])
USES = {
    "store": (store, [lambda: store.claim(BID), lambda: store.read("forked")]),
    "sink": (sink, [lambda: sink.bind(TERM).multi(), lambda: sink.seal("forked", 1)]),
}

async def in_the_child(opened, uses):
    for use in uses:
        try:
            await use()
        except ConfigError as error:
            assert "open it again" in str(error)
        else:
            raise AssertionError
    await opened.__aexit__(None, None, None)

async def main():
    opened, uses = USES[sys.argv[2]]
    async with opened:
        await uses[0]()
        link = sink._asking._session._link if opened is sink else None
        if (child := os.fork()) == 0:
            asyncio.events._set_running_loop(None)
            asyncio.run(in_the_child(opened, uses))
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        async with asyncio.timeout(30):
            await uses[0]()
        # On the connection that there was, which still tells of what comes in.
        assert link is None or sink._asking._session._link is link
        print("both")

asyncio.run(main())
"""


@pytest.mark.parametrize("what", ["store", "sink"])
def test_what_was_opened_before_a_fork_is_not_used_after_it(what: str, newest: ZooKeeperEnsemble) -> None:
    command = [sys.executable, "-c", PROGRAM, newest.url, what]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (answer.stdout, answer.stderr, answer.returncode) == ("both\n", "", 0)

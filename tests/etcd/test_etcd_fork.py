"""A fork of a process that has opened something of etcd: it is told to open it again, and leaves what it was given alone."""

import subprocess
import sys

import pytest

from tenure.testing.engines import EtcdCluster

PROGRAM = """
import asyncio, os, sys
from types import SimpleNamespace
from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.messages import Range
from tenure.clients.etcd.opening import client_of
from tenure.errors import ConfigError
from tenure.model import Bid, Holder, Wait
from tenure.sinks.etcd import EtcdSink
from tenure.stores.etcd import from_url

BID = Bid("forked", Holder.fresh(), 1, 30 * 10**9)
TERM = SimpleNamespace(fence="forked", token=1)
client = client_of(sys.argv[1])
store, sink = from_url(sys.argv[1]), EtcdSink(sys.argv[1])
USES = {
    "client": (client, [
        lambda: client.range(Range(b"x"), operation="read"),
        lambda: client.lease_renew(1),
        lambda: client.deleted(b"x", 1),
    ]),
    "store": (store, [
        lambda: store.claim(BID),
        lambda: store.release(BID),
        lambda: store.changed(Wait(BID, None)),
        lambda: store.read("forked"),
    ]),
    "sink": (sink, [lambda: sink.bind(TERM).put(b"forked", b"x"), lambda: sink.seal("forked", 1)]),
}

async def in_the_child(opened, uses):
    for use in uses:
        try:
            await use()
        except ConfigError as error:
            assert "open it again after the fork" in str(error)
        else:
            raise AssertionError
    await opened.__aexit__(None, None, None)

async def main():
    opened, uses = USES[sys.argv[2]]
    async with opened:
        await uses[0]()
        waiting = asyncio.create_task(client.deleted(b"x", 1)) if opened is client else None
        await asyncio.sleep(0)
        if (child := os.fork()) == 0:
            asyncio.events._set_running_loop(None)
            asyncio.run(in_the_child(opened, uses))
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        async with asyncio.timeout(30):
            await uses[0]()  # On the connection that there was, which still tells of what comes in.
        if waiting:
            waiting.cancel()
        print("both")

asyncio.run(main())
"""


@pytest.mark.parametrize("what", ["client", "store", "sink"])
def test_what_was_opened_before_a_fork_is_not_used_after_it(what: str, etcd: EtcdCluster) -> None:
    command = [sys.executable, "-c", PROGRAM, etcd.url, what]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (answer.stdout, answer.stderr, answer.returncode) == ("both\n", "", 0)

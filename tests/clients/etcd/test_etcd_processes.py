"""Processes and event loops: the client works in a forked child, on two loops at once, and brings no generated code."""

import subprocess
import sys

from tenure.testing.engines import EtcdCluster

CALL = """
import asyncio, os, sys, threading
from tenure.clients.etcd.client import EtcdClient
from tenure.clients.etcd.messages import Put, Txn

async def calls(count):
    async with EtcdClient(sys.argv[1:], address="etcd://test", call_timeout_s=20) as client:
        for number in range(count):
            await client.txn(Txn((), (Put(b"test/process", b"%d" % number),)), operation="put")
"""


def run(program: str, *endpoints: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", CALL + program, *endpoints]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_client_made_in_a_forked_child_works_after_the_parent_had_one(etcd: EtcdCluster) -> None:
    answer = run(
        """
async def main():
    async with EtcdClient(sys.argv[1:], address="etcd://test", call_timeout_s=20) as client:
        await client.txn(Txn((), (Put(b"test/process", b""),)), operation="put")
        if (child := os.fork()) == 0:
            asyncio.events._set_running_loop(None)
            asyncio.run(calls(3))
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        await client.txn(Txn((), (Put(b"test/process", b""),)), operation="put")
        print("both")
asyncio.run(main())
""",
        *etcd.endpoints,
    )
    assert (answer.stdout, answer.stderr, answer.returncode) == ("both\n", "", 0)


def test_two_event_loops_each_have_a_client(etcd: EtcdCluster) -> None:
    answer = run(
        """
threads = [threading.Thread(target=asyncio.run, args=(calls(200),)) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""",
        *etcd.endpoints,
    )
    assert (answer.stderr, answer.returncode) == ("", 0)


def test_the_client_needs_no_generated_code_and_no_grpc_library() -> None:
    answer = run("print(sorted({'google', 'grpc', 'grpclib', 'aetcd', 'etcd3', 'h2'} & set(sys.modules)))")
    assert (answer.stdout, answer.stderr) == ("[]\n", "")

"""A Lease that somebody deleted: a process that has never seen it counts from 1, and sinks hold until the documented remedy."""

import asyncio
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import tenure
from tenure.sinks import KubernetesSink
from tenure.testing.engines import KubernetesCluster
from tests.kubernetes.kubernetes_rig import LIMIT_S, by_kubectl, operator

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "use-kubernetes.md"
LEDGER = "configmaps/rewound"
# Leads once and writes once, as whoever is told to by its first argument; says what it is warned of, and its token at the end.
LEADS = """
import logging, sys
import anyio, tenure
from tenure.sinks import KubernetesSink
who, url = sys.argv[1:]
logging.basicConfig(stream=sys.stdout, format="%(message)s")
async def main():
    async with tenure.open_store(url) as store, KubernetesSink(url, "configmaps/rewound") as sink:
        async def body(term):
            await sink.bind(term).update("configmaps/rewound", lambda ledger: ledger.update(data={"by": who}))
            print("wrote with", term.token, flush=True)
        await tenure.Election(store, "rewound-sink", ttl=6).lead(body, sinks=[sink])
anyio.run(main)
"""


def remedy(election: str) -> list[str]:
    """What the page tells people to run, for this election."""
    (told,) = re.findall(r"`kubectl (patch lease billing [^`]*)`", PAGE.read_text())
    return [word if word != "billing" else election for word in shlex.split(told)]


async def written(cluster: KubernetesCluster) -> str:
    return await by_kubectl(cluster, "get", "configmap", "rewound", "--output=jsonpath={.data.by}")


async def test_a_process_that_has_not_seen_a_deleted_lease_is_refused_by_sinks_until_the_count_is_mended(
    cluster: KubernetesCluster,
) -> None:
    async def body(term: tenure.Tenure) -> None:
        await sink.bind(term).update(LEDGER, lambda ledger: ledger.update(data={"by": "us"}))

    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "rewound-sink"}}
    await by_kubectl(cluster, "create", "--filename=-", stdin=json.dumps(lease | {"spec": {"leaseTransitions": 499}}))
    async with tenure.open_store(cluster.url) as store, KubernetesSink(cluster.url, LEDGER) as sink:
        await tenure.Election(store, "rewound-sink", ttl=6).lead(body, sinks=[sink])
    assert await written(cluster) == "us"
    async with operator(cluster.url) as by_hand:
        await by_hand.delete("rewound-sink")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LEADS, "them", cluster.url, stdout=subprocess.PIPE, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(LIMIT_S):
            told = ""
            while "sealing" not in told:  # A machine that is busy may be warned of as well.
                told = (await process.stdout.readline()).decode()
                assert told, "it ended"
            assert re.search(r"with token 1 failed: .*\b500\b", told), told
            assert await written(cluster) == "us"
            await by_kubectl(cluster, *remedy("rewound-sink"))
            told = (await process.stdout.read()).decode()
            assert await process.wait() == 0
        assert told.splitlines()[-1] == "wrote with 1001"
        assert await written(cluster) == "them"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()

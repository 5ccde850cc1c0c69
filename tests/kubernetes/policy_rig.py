"""What the tests of the admission policy share: what is written, and what was said to it."""

import json

from tenure.testing.engines import EngineFailed, KubernetesCluster

APPLY = ("apply", "--filename=-")


def led(token: int, value: str, name: str = "led") -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "annotations": {"tenure/token": str(token)}},
            "data": {"x": value},
        }
    )


def deleted(cluster: KubernetesCluster, *names: str) -> bool:
    try:
        cluster.kubectl("delete", "--ignore-not-found", *names)
    except EngineFailed:
        return False
    return True


def refusal(cluster: KubernetesCluster, *arguments: str, stdin: str = "") -> str:
    """What kubectl was refused with; empty: it was not, or for another reason."""
    try:
        cluster.kubectl(*arguments, "--dry-run=server", stdin=stdin)
    except EngineFailed as error:
        told = str(error)
        assert "tenure: " in told, told
        return told.partition("tenure: ")[2]
    return ""

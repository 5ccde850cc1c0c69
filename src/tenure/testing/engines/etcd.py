"""Clusters of etcd."""

import re
from collections.abc import Sequence

from tenure.testing.engines.asking import ask, run_tool
from tenure.testing.engines.binaries import Binary, MissingEngine
from tenure.testing.engines.certificates import Tls
from tenure.testing.engines.cluster import Cluster, Node, address

_HEALTHY = re.compile(r'"health":\s*"true"')
_LEADS = "etcd_server_is_leader 1"


class EtcdCluster(Cluster):
    """``size`` nodes of etcd, with the settings of an installation, and ``options`` behind them on the command line."""

    engine = "etcd"
    ports_per_node = 2

    def __init__(  # noqa: PLR0913  (each by its name)
        self,
        size: int = 3,
        *,
        binary: Binary | None = None,
        isolated: bool = False,
        tls: Tls | None = None,
        host: str = "127.0.0.1",
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(size, binary, host, isolated, options)
        self.tls = tls
        self.scheme = "etcd" if tls is None else "etcds"

    def ctl(self, *arguments: str, node: Node | None = None, stdin: str = "") -> str:
        """Run ``etcdctl`` on this cluster, or on one node of it, and return what it prints; raises EngineFailed."""
        if not self.binary.tool:
            raise MissingEngine("etcdctl", "apt-get install -y etcd-client, or make engines in a clone of tenure")
        endpoints = self.endpoints if node is None else (node.endpoint,)
        command = [self.binary.tool, f"--endpoints={','.join(endpoints)}"]
        if self.tls is not None:
            command += [
                f"--cacert={self.tls.ca}",
                f"--cert={self.tls.client.certificate}",
                f"--key={self.tls.client.key}",
            ]
        return run_tool([*command, *arguments], f"etcdctl {' '.join(arguments)}", {"ETCDCTL_API": "3"}, stdin)

    def command(self, node: Node) -> list[str]:
        inside = self.network.enter(self.nodes.index(node)) if self.network is not None else []
        secure = "http" if self.tls is None else "https"
        clients = f"{secure}://{node.endpoint}"
        return [
            *inside,
            self.binary.program,
            f"--name={node.name}",
            f"--data-dir={node.folder / 'data'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={_peer_url(node)}",
            f"--initial-advertise-peer-urls={_peer_url(node)}",
            f"--initial-cluster={','.join(f'{other.name}={_peer_url(other)}' for other in self.nodes)}",
            f"--initial-cluster-token={self.folder.name}",
            *self._tls_flags(node),
            *self.options,
        ]

    def serves(self, node: Node) -> bool:
        _, health = self._ask(node, "/health")
        return _HEALTHY.search(health) is not None

    def leads(self, node: Node) -> bool:
        return _LEADS in self.metrics(node).splitlines()

    def metrics(self, node: Node) -> str:
        """Return what a node counts, for Prometheus; nothing if it does not answer."""
        _, metrics = self._ask(node, "/metrics")
        return metrics

    def _ask(self, node: Node, path: str) -> tuple[int, str]:
        """Ask with a plain GET, which needs no rights."""
        return ask(node, None if self.tls is None else self.tls.context(), path)

    def _tls_flags(self, node: Node) -> list[str]:
        if self.tls is None:
            return []
        server = self.tls.issue(f"{self.folder.name}-{node.name}", node.host)
        flags = [f"--cert-file={server.certificate}", f"--key-file={server.key}"]
        if self.tls.clients_need_certificates:
            flags += ["--client-cert-auth", f"--trusted-ca-file={self.tls.ca}"]
        return flags


def _peer_url(node: Node) -> str:
    # Peers speak in the clear: TLS between them changes nothing that a client could see.
    return f"http://{address(node.host, node.ports[1])}"

"""Clusters of etcd."""

import http.client
import os
import re
import ssl
import subprocess
from collections.abc import Sequence

from tenure.testing.engines.binaries import Binary, MissingEngine
from tenure.testing.engines.certificates import Tls
from tenure.testing.engines.cluster import Cluster, EngineFailed, Node, address

# A node that does not answer at once is not ready, or has nobody to ask; the next look comes soon.
_ASK_S = 2
_CTL_S = 60
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
        answer = subprocess.run(
            [*command, *arguments],
            env={**os.environ, "ETCDCTL_API": "3"},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_CTL_S,
            check=False,
        )
        if answer.returncode != 0:
            raise EngineFailed(
                f"etcdctl {' '.join(arguments)}", f"ended with {answer.returncode}", answer.stderr.strip()
            )
        return answer.stdout

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
        return _HEALTHY.search(self._ask(node, "/health")) is not None

    def leads(self, node: Node) -> bool:
        return _LEADS in self._ask(node, "/metrics").splitlines()

    def _ask(self, node: Node, path: str) -> str:
        """What a node answers to a plain GET, which needs no rights; nothing if it does not answer."""
        connection = (
            http.client.HTTPConnection(node.host, node.ports[0], timeout=_ASK_S)
            if self.tls is None
            else http.client.HTTPSConnection(node.host, node.ports[0], timeout=_ASK_S, context=_context(self.tls))
        )
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        except (OSError, http.client.HTTPException):
            return ""
        finally:
            connection.close()

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


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca)
    context.load_cert_chain(tls.client.certificate, tls.client.key)
    return context

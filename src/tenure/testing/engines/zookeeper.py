"""Ensembles of ZooKeeper."""

import re
import socket
from collections.abc import Sequence
from pathlib import Path

from tenure.testing.engines.binaries import Binary, java
from tenure.testing.engines.certificates import Tls
from tenure.testing.engines.cluster import Cluster, Node, address

_ASK_S = 2
_STATE = "zk_server_state"
_FOLLOWERS = re.compile(r"zk_synced_followers\t(\d+)")
# Small, and quick to start: a test server needs neither a compiler of its best code nor more than one collector thread.
_JAVA_FLAGS = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class ZooKeeperEnsemble(Cluster):
    """``size`` nodes of ZooKeeper with its shipped settings but for ``tick_ms``; ``options`` are further lines of zoo.cfg.

    With ``tls``, ``endpoints`` are the ports that speak it.
    """

    engine = "zookeeper"

    def __init__(  # noqa: PLR0913  (each by its name)
        self,
        size: int = 3,
        *,
        binary: Binary | None = None,
        isolated: bool = False,
        tls: Tls | None = None,
        host: str = "127.0.0.1",
        tick_ms: int = 2000,
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(size, binary, host, isolated, options)
        self.tls, self.tick_ms = tls, tick_ms
        self.scheme = "zookeeper" if tls is None else "zookeepers"
        self.ports_per_node = 3 if tls is None else 4

    def ask(self, node: Node, word: str) -> str:
        """What a node answers to a four-letter word such as ``mntr``; nothing if it does not."""
        answer = b""
        try:
            with socket.create_connection((node.host, self._plain_port(node)), timeout=_ASK_S) as connection:
                connection.sendall(word.encode())
                while part := connection.recv(65536):
                    answer += part
        except OSError:
            return ""
        return answer.decode(errors="replace")

    def command(self, node: Node) -> list[str]:
        inside = self.network.enter(self.nodes.index(node)) if self.network is not None else []
        number = self.nodes.index(node) + 1
        data = node.folder / "data"
        data.mkdir(exist_ok=True)
        (data / "myid").write_text(f"{number}\n")
        settings = node.folder / "zoo.cfg"
        settings.write_text("\n".join([*self._settings(node), *self.options, ""]))
        return [*inside, java(), *_JAVA_FLAGS, "-cp", self.binary.program, _MAIN, str(settings)]

    def serves(self, node: Node) -> bool:
        return _STATE in self.ask(node, "mntr") and (self.tls is None or _listens(node))

    def leads(self, node: Node) -> bool:
        status = self.ask(node, "mntr")
        # A leader that was paused still says that it leads for a while after it runs on, but nobody follows it.
        followers = _FOLLOWERS.search(status)
        followed = followers is not None and int(followers[1]) >= self.size // 2
        return f"{_STATE}\tstandalone" in status or (f"{_STATE}\tleader" in status and followed)

    def _settings(self, node: Node) -> list[str]:
        lines = [
            f"tickTime={self.tick_ms}",
            "initLimit=10",
            "syncLimit=5",
            f"dataDir={node.folder / 'data'}",
            f"clientPort={self._plain_port(node)}",
            f"clientPortAddress={node.host}",
            "quorumListenOnAllIPs=false",
            "admin.enableServer=false",
            "4lw.commands.whitelist=*",
        ]
        if self.size > 1:
            lines += [
                f"server.{number}={address(other.host, other.ports[1])}:{other.ports[2]}"
                for number, other in enumerate(self.nodes, 1)
            ]
        if self.tls is not None:
            keys = self._key_store(node, self.tls)
            lines += [
                f"secureClientPort={node.ports[0]}",
                f"secureClientPortAddress={node.host}",
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
                f"ssl.keyStore.location={keys}",
                f"ssl.trustStore.location={self.tls.ca}",
                f"ssl.clientAuth={'need' if self.tls.clients_need_certificates else 'none'}",
            ]
        return lines

    def _plain_port(self, node: Node) -> int:
        """Where a node is asked how it is: in the clear, also where its clients speak TLS."""
        return node.ports[0 if self.tls is None else 3]

    def _key_store(self, node: Node, tls: Tls) -> Path:
        """ZooKeeper reads key and certificates from one file, and knows its kind by the end of its name."""
        server, store = tls.issue(f"{self.folder.name}-{node.name}", node.host), node.folder / "keys.pem"
        store.write_bytes(server.key.read_bytes() + server.certificate.read_bytes())
        return store


def _listens(node: Node) -> bool:
    """Whether its encrypted port is open, which comes after the plain one."""
    try:
        socket.create_connection((node.host, int(node.endpoint.rpartition(":")[2])), timeout=_ASK_S).close()
    except OSError:
        return False
    return True

"""Servers of Redis: a primary with its replicas, servers that know nothing of each other, and Sentinels that watch a primary."""

import socket
from collections.abc import Sequence

from tenure.testing.engines.asking import run_tool
from tenure.testing.engines.binaries import Binary, MissingEngine
from tenure.testing.engines.certificates import Tls
from tenure.testing.engines.cluster import Cluster, Node

_ASK_S = 2
_SERVICE = "tenure"  # what Sentinels call the primary


class RedisCluster(Cluster):
    """``size`` servers of Redis: the first is the primary and the others its replicas, or each by itself if ``independent``.

    They write everything down before they answer (``appendfsync always``) unless ``persistent`` is false. ``password`` is that of the user ``default``;
    ``options`` are further lines of redis.conf. Who is primary may change: ``RedisSentinels`` see to that, or a test. ``sharded``: each is a node of a
    Redis Cluster (7.0 or newer) that has not met any other.
    """

    engine = "redis"

    def __init__(  # noqa: PLR0913  (each by its name)
        self,
        size: int = 1,
        *,
        binary: Binary | None = None,
        isolated: bool = False,
        tls: Tls | None = None,
        host: str = "127.0.0.1",
        independent: bool = False,
        password: str = "",
        persistent: bool = True,
        sharded: bool = False,
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(size, binary, host, isolated, options)
        self.sharded, self.ports_per_node = sharded, 2 if sharded else 1
        self.tls, self.independent, self.password, self.persistent = tls, independent, password, persistent
        self.scheme = "redis" if tls is None else "rediss"

    @property
    def url(self) -> str:
        """What ``open_store`` takes: the primary as it was at the start, or all that are independent."""
        if self.independent:
            return f"redlock{'' if self.tls is None else 's'}://{','.join(self.endpoints)}"
        return f"{self.scheme}://{self.nodes[0].endpoint}"

    def ctl(self, *arguments: str, node: Node | None = None, stdin: str = "") -> str:
        """Run ``redis-cli`` on one node, the first unless it is named, and return what it prints; raises EngineFailed."""
        if not self.binary.tool:
            raise MissingEngine("redis-cli", "apt-get install -y redis-tools")
        node = node or self.nodes[0]
        command = [self.binary.tool, "-e", "-h", node.host, "-p", str(node.ports[0])]
        if self.tls is not None:
            pair = self.tls.client
            command += ["--tls", "--cacert", str(self.tls.ca), "--cert", str(pair.certificate), "--key", str(pair.key)]
        environment = {"REDISCLI_AUTH": self.password} if self.password else {}
        return run_tool([*command, *arguments], f"redis-cli {' '.join(arguments)}", environment, stdin).rstrip("\n")

    def command(self, node: Node) -> list[str]:
        settings = node.folder / "redis.conf"
        if not settings.exists():  # Else Sentinels may have written there who is whose replica.
            settings.write_text("\n".join([*self._settings(node), *self.options, ""]))
        return [*self._inside(node), self.binary.program, str(settings)]

    def serves(self, node: Node) -> bool:
        told = self.info(node, "replication")
        if "role:slave" not in told:
            return "role:master" in told
        return "master_link_status:up" in told or not self._has_primary(node)

    def leads(self, node: Node) -> bool:
        if self.independent:  # All of them do, or none.
            return node is self.nodes[0]
        return "role:master" in self.info(node, "replication")

    def info(self, node: Node, section: str) -> str:
        """Return a section of INFO as a node tells it; nothing if it does not answer."""
        return ask(node, self.tls, self.password, f"INFO {section}")

    def _has_primary(self, node: Node) -> bool:
        return any(other.reachable and self.leads(other) for other in self.nodes if other is not node)

    def _settings(self, node: Node) -> list[str]:
        lines = [
            *ports_of(node, self.tls, self.folder.name),
            f"appendonly {'yes' if self.persistent else 'no'}",
            "appendfsync always",  # As shipped a server that is killed forgets up to two seconds: it does not write while it syncs.
            'save ""',
            "repl-diskless-sync yes",
            "repl-diskless-sync-delay 0",  # As shipped a first replica waits for five seconds, in case there is another.
        ]
        if self.sharded:
            # Its nodes talk at a port that is 10,000 higher if none is said, which is one that the kernel gives to outgoing connections.
            lines += ["cluster-enabled yes", f"cluster-port {node.ports[1]}"]
        if self.password:
            lines += [f"requirepass {self.password}", f"masterauth {self.password}"]
        if not self.independent and node is not self.nodes[0]:
            lines.append(f"replicaof {self.nodes[0].host} {self.nodes[0].ports[0]}")
        return lines

    def _inside(self, node: Node) -> list[str]:
        return self.network.enter(self.nodes.index(node)) if self.network is not None else []


class RedisSentinels(Cluster):
    """``size`` Sentinels that watch the primary of ``watched`` and promote a replica once it is silent for ``down_after_ms``.

    ``password`` is their own, and not that of the servers.
    """

    engine = "redis"
    scheme = "redis+sentinel"
    ports_per_node = 1

    def __init__(self, watched: RedisCluster, size: int = 3, *, down_after_ms: int = 1000, password: str = "") -> None:
        super().__init__(size, watched.binary, watched.host, False, ())
        self.watched, self.down_after_ms, self.password = watched, down_after_ms, password
        self.scheme = "redis+sentinel" if watched.tls is None else "rediss+sentinel"

    @property
    def url(self) -> str:
        """What ``open_store`` takes."""
        return f"{super().url}/{_SERVICE}"

    def primary(self) -> str:
        """Where the primary is, as all Sentinels that can be asked know: ``host:port``; nothing if they do not agree.

        After a promotion one of them knows first, and the others hear of it.
        """
        places = {self._primary_by(node) for node in self.nodes if node.reachable}
        return places.pop() if len(places) == 1 else ""

    def _primary_by(self, node: Node) -> str:
        told = self._ask(node, f"SENTINEL GET-MASTER-ADDR-BY-NAME {_SERVICE}").split("\r\n")
        # An array of two texts, each with its length before it.
        return f"{told[2]}:{told[4]}" if len(told) > 4 else ""  # noqa: PLR2004

    def promoted(self, old: Node) -> Node | None:
        """Return who is primary in the place of ``old``, by its own word; None: nobody yet."""
        found = [node for node in self.watched.nodes if node is not old and node.endpoint == self.primary()]
        return found[0] if found and self.watched.leads(found[0]) else None

    def command(self, node: Node) -> list[str]:
        settings, primary = node.folder / "sentinel.conf", self.watched.nodes[0]
        if not settings.exists():  # It is theirs from then on: they write there what they have found out.
            lines = [
                *ports_of(node, self.watched.tls, self.folder.name),
                f"sentinel monitor {_SERVICE} {primary.host} {primary.ports[0]} {self.size // 2 + 1}",
                f"sentinel down-after-milliseconds {_SERVICE} {self.down_after_ms}",
                f"sentinel failover-timeout {_SERVICE} 5000",
                *([f"sentinel auth-pass {_SERVICE} {self.watched.password}"] if self.watched.password else ()),
                *([f"requirepass {self.password}", f"sentinel sentinel-pass {self.password}"] if self.password else ()),
                "",
            ]
            settings.write_text("\n".join(lines))
        return [self.binary.program, str(settings), "--sentinel"]

    def serves(self, node: Node) -> bool:
        """Whether it knows of everybody, so that it could have a replica promoted."""
        told = self._ask(node, f"SENTINEL MASTER {_SERVICE}").split("\r\n")
        counts = dict(zip(told[2::4], told[4::4], strict=False))
        known = counts.get("num-other-sentinels"), counts.get("num-slaves")
        return known == (str(self.size - 1), str(self.watched.size - 1))

    def leads(self, node: Node) -> bool:
        return node is self.nodes[0]  # They choose a leader for each failover, and have none at other times.

    def _ask(self, node: Node, words: str) -> str:
        return ask(node, self.watched.tls, self.password, words)


def ports_of(node: Node, tls: Tls | None, folder: str) -> list[str]:
    """Return the lines of a configuration that say where a server listens, and by which certificates."""
    lines = [f"bind {node.host}", f"dir {node.folder}", "protected-mode no", "daemonize no"]
    if tls is None:
        return [*lines, f"port {node.ports[0]}"]
    server = tls.issue(f"{folder}-{node.name}", node.host)
    return [
        *lines,
        "port 0",
        f"tls-port {node.ports[0]}",
        f"tls-cert-file {server.certificate}",
        f"tls-key-file {server.key}",
        f"tls-ca-cert-file {tls.ca}",
        f"tls-auth-clients {'yes' if tls.clients_need_certificates else 'no'}",
        "tls-replication yes",
    ]


def ask(node: Node, tls: Tls | None, password: str, words: str) -> str:
    """Return what a server says to one command, as it comes over the wire; nothing if it does not answer."""
    told = b""
    try:
        with (
            socket.create_connection((node.host, node.ports[0]), timeout=_ASK_S) as plain,
            plain if tls is None else tls.context().wrap_socket(plain, server_hostname=node.host) as channel,
        ):
            login = f"AUTH {password}\r\n" if password else ""
            channel.sendall(f"{login}{words}\r\nPING\r\n".encode())
            while not told.endswith(b"+PONG\r\n"):
                part = channel.recv(65536)
                if not part:
                    return ""
                told += part
    except OSError:
        return ""
    return told.decode(errors="replace").removeprefix("+OK\r\n" if password else "")

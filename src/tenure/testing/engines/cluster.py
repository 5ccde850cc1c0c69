"""A cluster of real engines as local processes: what all engines have in common.

Rules of this file
1. A block that is left leaves nothing behind: no process, port, network or folder. Only if it was left by an exception is
   the folder kept, with data and logs, and the exception says where.
2. Whether a node is ready is asked of the node, never guessed from the time.
3. A node that is started again has the data, the address and the ports that it had.
"""

import shutil
import signal
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tenure.errors import ConfigError, TenureError
from tenure.testing.engines.binaries import Binary, newest
from tenure.testing.engines.network import Cut, From, Network, OneWay
from tenure.testing.engines.ports import claim_ports
from tenure.testing.engines.processes import Process, wait_for

# A cluster is there in a second or two. On a machine with all cores busy it was seen to take ten times that.
_START_S = 90
_LEADER_S = 60
# What an engine may take to write everything down and go.
_STOP_S = 30
_TAIL_LINES = 40  # etcd explains a bad flag in twenty lines, after the one that names it.
# In a network of its own each node can have the same ports. Below 32768, as everywhere.
_PORT_IN_NETWORK = 12_379


class EngineFailed(TenureError):
    """An engine did not do what it was told: ``node`` and ``what`` it did, and ``tail``, the last lines of its log."""

    def __init__(self, node: str, what: str, tail: str) -> None:
        self.node, self.what, self.tail = node, what, tail
        super().__init__(node, what, tail)

    def __str__(self) -> str:
        return f"{self.node} {self.what}; the end of its log:\n{self.tail}"


class Node:
    """One server of a cluster. Made by the cluster, which alone knows the command that runs it."""

    def __init__(self, cluster: "Cluster", index: int, host: str, ports: Sequence[int], folder: Path) -> None:
        self._cluster, self._index = cluster, index
        self.name, self.host, self.ports, self.folder = f"n{index + 1}", host, tuple(ports), folder
        self.log = folder / "log"
        self._process: Process | None = None
        self.paused = False
        self.cut: Cut | None = None

    def __repr__(self) -> str:
        return f"<Node {self.name} at {self.endpoint}>"

    @property
    def endpoint(self) -> str:
        """Where clients find it: ``host:port``."""
        return address(self.host, self.ports[0])

    @property
    def pid(self) -> int:
        """The number of the engine's own process."""
        return self._running().pid

    @property
    def running(self) -> bool:
        return self._process is not None and not self._process.ended

    @property
    def reachable(self) -> bool:
        """Whether clients can hope for an answer: it runs, is not paused and not cut off from them."""
        return self.running and not self.paused and not (self.cut is not None and self.cut.clients)

    @property
    def among_peers(self) -> bool:
        """Whether it can take part in a quorum: it runs, is not paused and not cut off from its peers."""
        return self.running and not self.paused and not (self.cut is not None and self.cut.peers)

    def start(self) -> None:
        """Start it, again with its data, and wait until it serves.

        A node without a quorum serves nobody, so where too few others run this returns once its process does.
        """
        self.launch()
        if self._cluster.has_quorum and self.among_peers and self.reachable:
            self._cluster.wait_until_serving([self])

    def launch(self) -> None:
        """Start it and wait for nothing."""
        assert not self.running, f"{self.name} runs already"
        self.discard()
        self.folder.mkdir(exist_ok=True)
        self._process, self.paused = Process(self._cluster.command(self), self.log), False

    def kill(self) -> None:
        """Kill it with SIGKILL; on return it is gone."""
        self._running().kill()
        self.paused = False

    def stop(self) -> None:
        """Ask it with SIGTERM to end, and wait until it has."""
        process = self._running()
        process.signal(signal.SIGTERM)
        if self.paused:
            self.resume()
        if not process.wait(_STOP_S):
            raise EngineFailed(self.name, f"still runs {_STOP_S} s after SIGTERM", self.tail())

    def pause(self) -> None:
        """Freeze it with SIGSTOP; on return none of its threads runs."""
        self._running().pause()
        self.paused = True

    def resume(self) -> None:
        """Let it run on after a pause."""
        self._running().resume()
        self.paused = False

    def partition(self, from_: From = None, *, one_way: OneWay = None) -> None:
        """Cut it off from its ``"peers"``, its ``"clients"`` or, with None, from both.

        ``one_way="receiving"``: it cannot receive, and what it sends arrives; ``"sending"``: the other way round. Packets
        vanish: nobody is told, as when a cable is pulled. Needs a cluster with ``isolated=True``.
        """
        self._set_cut(Cut(peers=from_ != "clients", clients=from_ != "peers", one_way=one_way))

    def heal(self) -> None:
        """Undo its ``partition``."""
        self._set_cut(None)

    def tail(self) -> str:
        """The last lines of its log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-_TAIL_LINES:])

    def discard(self) -> None:
        """End it if it runs, in whatever state, and let go of what is left of it."""
        if self._process is not None:
            self._process.kill()

    def _running(self) -> Process:
        if self._process is None or self._process.ended:
            raise EngineFailed(self.name, "does not run", self.tail())
        return self._process

    def _set_cut(self, cut: Cut | None) -> None:
        network = self._cluster.network
        if network is None:
            raise ConfigError("isolated", False, "only the nodes of a cluster with isolated=True can be cut off")
        self.cut = cut
        network.cut([node.cut for node in self._cluster.nodes])


class Cluster(ABC):
    """Servers of one engine that know of each other. A context manager: they run while the block does.

    They listen at ``host`` or, with ``isolated``, each in a network of its own at an address that the harness gives it.
    """

    engine: str
    scheme: str
    ports_per_node: int
    inside: Path | None = None  # which folder its own one is made in, if not in that for temporary files

    def __init__(self, size: int, binary: Binary | None, host: str, isolated: bool, options: Sequence[str]) -> None:
        if size < 1:
            raise ConfigError("size", size, "a cluster has at least one node")
        self.size, self.host, self.isolated, self.options = size, host, isolated, tuple(options)
        self._binary = binary
        self.nodes: list[Node] = []
        self.network: Network | None = None
        self._undo = ExitStack()
        self._kept = False

    @property
    def endpoints(self) -> tuple[str, ...]:
        return tuple(node.endpoint for node in self.nodes)

    @property
    def url(self) -> str:
        """What ``open_store`` takes."""
        return f"{self.scheme}://{','.join(self.endpoints)}"

    @property
    def binary(self) -> Binary:
        """What the nodes run: what was given, or the newest on this machine."""
        if self._binary is None:
            self._binary = newest(self.engine)
        return self._binary

    @property
    def has_quorum(self) -> bool:
        """Whether enough nodes run, and reach each other, to decide anything."""
        return sum(node.among_peers for node in self.nodes) > self.size // 2

    def mend(self) -> None:
        """Have every node serve again, whatever was done to it, and one of them lead."""
        for node in self.nodes:
            if node.cut is not None:
                node.heal()
            if node.paused:
                node.resume()
        for node in self.nodes:
            if not node.running:
                node.launch()
        self.wait_until_serving(self.nodes)
        self.leader()

    def restart(self) -> None:
        """Kill every node that runs, then have all of them serve again, with the data that they had."""
        for node in self.nodes:
            if node.running:
                node.kill()
        self.mend()

    def keep(self) -> None:
        """Keep the folder with data and logs when the block ends, even if it ends well."""
        self._kept = True

    def leader(self) -> Node:
        """The node that leads, by its own word; waits until one does. A node that is paused or cut off does not count."""
        found: list[Node] = []

        def one_leads() -> bool:
            # An old leader that has just woken up may not know yet that there is a new one.
            found[:] = [node for node in self.nodes if node.among_peers and node.reachable and self.leads(node)]
            return len(found) == 1

        if not wait_for(one_leads, _LEADER_S):
            raise EngineFailed(self.engine, f"has no leader after {_LEADER_S} s", self.nodes[0].tail())
        return found[0]

    @abstractmethod
    def command(self, node: Node) -> list[str]:
        """What runs a node, with its settings written where that command expects them."""

    @abstractmethod
    def serves(self, node: Node) -> bool:
        """Ask a node whether it serves requests, which it does only as part of a quorum."""

    @abstractmethod
    def leads(self, node: Node) -> bool:
        """Ask a node whether it is the leader."""

    def wait_until_serving(self, nodes: Sequence[Node]) -> None:
        """Wait until each of ``nodes`` serves requests."""
        waiting = list(nodes)

        def all_serve() -> bool:
            while waiting:
                if not waiting[0].running:
                    raise EngineFailed(waiting[0].name, "ended while it was starting", waiting[0].tail())
                if not self.serves(waiting[0]):
                    return False
                del waiting[0]
            return True

        if not wait_for(all_serve, _START_S):
            raise EngineFailed(waiting[0].name, f"does not serve after {_START_S} s", waiting[0].tail())

    def __enter__(self) -> Self:
        _ = self.binary
        self.folder = Path(tempfile.mkdtemp(prefix=f"tenure-{self.engine}-", dir=self.inside))
        with ExitStack() as failed:
            failed.push(self.__exit__)
            self._start()
            failed.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.__exit__(kind, error, trace)
        if error is not None and any(node.log.exists() for node in self.nodes):
            error.add_note(f"data and logs of {self.binary} are kept in {self.folder}")
        elif not self._kept:
            shutil.rmtree(self.folder)

    def _start(self) -> None:
        places = self._places_apart() if self.isolated else self._places_here()
        self.nodes = [
            Node(self, index, host, ports, self.folder / f"n{index + 1}") for index, (host, ports) in enumerate(places)
        ]
        for node in self.nodes:
            self._undo.callback(node.discard)
            node.launch()
        self.wait_until_serving(self.nodes)

    def _places_here(self) -> list[tuple[str, list[int]]]:
        """An address and ports for each node, in the network of this machine."""
        claims = claim_ports(self.ports_per_node * self.size, self.host)
        for claim in claims:
            self._undo.callback(claim.release)
        ports = iter(claim.port for claim in claims)
        return [(self.host, [next(ports) for _ in range(self.ports_per_node)]) for _ in range(self.size)]

    def _places_apart(self) -> list[tuple[str, list[int]]]:
        """An address and ports for each node, in a network of its own."""
        self.network = Network(self.size)
        self._undo.callback(self.network.close)
        ports = range(_PORT_IN_NETWORK, _PORT_IN_NETWORK + self.ports_per_node)
        return [(host, list(ports)) for host in self.network.hosts]


def address(host: str, port: int) -> str:
    """``host:port``, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

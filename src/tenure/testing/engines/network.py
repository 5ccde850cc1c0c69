"""Networks of their own for the nodes of a cluster, so that a node can be cut off from its peers, its clients, or both.

Each node is in a network namespace. A further one holds the bridge that joins them, out of reach of what firewall the
machine has. The tests stay in the network of the machine and reach the nodes over one more cable into the bridge.

A cable is cut by a lie about the neighbour: the sender is told a hardware address that nobody has. The packet leaves, the
bridge finds nobody for it, and nobody hears of it. That is what a partition does: a firewall that *refuses*, or a route that
is gone, would tell the sender at once. It works in one direction at a time and needs no tool but ``ip``.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

from tenure.errors import ConfigError
from tenure.testing.engines.binaries import MissingEngine
from tenure.testing.engines.ports import Claim

From = Literal["peers", "clients"] | None
# What a node cannot do any more; None: neither.
OneWay = Literal["receiving", "sending"] | None

# A network is claimed like a port, by a number that only one process can hold. See ports.py, which stays below these.
_FIRST_CLAIM = 31_000
_NETWORKS = 256
_NODES_MAX = 200
_NAME = re.compile(r"^tenure(?P<number>\d+)-\w+", re.MULTILINE)
_NOBODY = "02:00:00:00:00:00"
_HOST = 254


@dataclass(frozen=True)
class Cut:
    """What a node is cut off from, and whether only in ``one_way``: what it cannot do, while the other way is open."""

    peers: bool
    clients: bool
    one_way: OneWay = None


class Network:
    """Namespaces for ``size`` nodes. ``hosts`` are their addresses; the tests reach them without further ado."""

    def __init__(self, size: int) -> None:
        if size > _NODES_MAX:
            raise ConfigError("size", size, f"an isolated cluster has at most {_NODES_MAX} nodes")
        if os.geteuid() != 0:
            raise MissingEngine("the right to make network namespaces", "run as root, or leave out isolated=True")
        with _rights_needed():
            _sweep()
        self._claim = _claim_any()
        self._number = self._claim.port - _FIRST_CLAIM
        self._ends = [*range(1, size + 1), _HOST]
        self.hosts = [self._address(end) for end in self._ends if end != _HOST]
        self._lies: set[tuple[int, int]] = set()
        with ExitStack() as failed:
            failed.callback(self.close)
            with _rights_needed():
                self._build()
            failed.pop_all()

    def enter(self, index: int) -> list[str]:
        """What a command begins with to run in the namespace of a node. The process is then that of the command itself."""
        return [_ip(), "netns", "exec", self._namespace(index + 1)]

    def cut(self, cuts: list[Cut | None]) -> None:
        """Cut and heal until the network is as ``cuts`` says, one for each node."""
        wanted = {
            (sender, receiver)
            for sender, receiver in permutations(self._ends, 2)
            if _stops(cuts, receiver, sender, "sending") or _stops(cuts, sender, receiver, "receiving")
        }
        for sender, receiver in sorted(wanted ^ self._lies):
            self._tell(sender, receiver, _NOBODY if (sender, receiver) in wanted else self._hardware(receiver))
        self._lies = wanted

    def close(self) -> None:
        """Remove everything, and give the number back."""
        _remove(self._number)
        self._claim.release()

    def _build(self) -> None:
        bridge = self._name("bridge")
        _run("netns", "add", bridge)
        _run("-n", bridge, "link", "add", "bridge", "type", "bridge")
        _run("-n", bridge, "link", "set", "bridge", "up")
        for end in self._ends:
            port, device = f"port{end}", self._device(end)
            if end != _HOST:
                _run("netns", "add", self._namespace(end))
                _run(*self._inside(end), "link", "set", "lo", "up")
            _run(*self._inside(end), "link", "add", device, "type", "veth", "peer", "name", port, "netns", bridge)
            _run("-n", bridge, "link", "set", port, "master", "bridge", "up")
            _run(*self._inside(end), "link", "set", device, "address", self._hardware(end), "up")
            _run(*self._inside(end), "address", "add", f"{self._address(end)}/24", "dev", device)
        for sender, receiver in permutations(self._ends, 2):
            self._tell(sender, receiver, self._hardware(receiver))

    def _tell(self, sender: int, receiver: int, hardware: str) -> None:
        entry = [self._address(receiver), "lladdr", hardware, "dev", self._device(sender), "nud", "permanent"]
        _run(*self._inside(sender), "neighbour", "replace", *entry)

    def _name(self, part: str) -> str:
        return f"tenure{self._number}-{part}"

    def _namespace(self, end: int) -> str:
        return self._name(f"n{end}")

    def _inside(self, end: int) -> list[str]:
        return [] if end == _HOST else ["-n", self._namespace(end)]

    def _device(self, end: int) -> str:
        return self._name("host") if end == _HOST else "eth0"

    def _address(self, end: int) -> str:
        # 198.18.0.0/15 is set aside for tests of networks, so no machine has it in use.
        return f"198.18.{self._number}.{end}"

    def _hardware(self, end: int) -> str:
        return f"02:00:00:00:{self._number:02x}:{end:02x}"


def _stops(cuts: list[Cut | None], end: int, other: int, unless: OneWay) -> bool:
    """Whether the cut of one end stops a packet between it and another, ``unless`` it is a cut of this one way."""
    cut = None if end == _HOST else cuts[end - 1]
    return cut is not None and cut.one_way != unless and (cut.clients if other == _HOST else cut.peers)


def _claim_any() -> Claim:
    for number in range(_NETWORKS):
        try:
            return Claim(_FIRST_CLAIM + number)
        except OSError:
            continue
    raise ConfigError("isolated", True, f"all {_NETWORKS} networks are in use")


def _sweep() -> None:
    """Remove what a harness that was killed has left behind: networks whose number nobody holds."""
    names = _run("netns", "list") + _run("-brief", "link")
    for number in {int(match["number"]) for match in _NAME.finditer(names)}:
        try:
            claim = Claim(_FIRST_CLAIM + number)
        except OSError:
            continue
        _remove(number)
        claim.release()


def _remove(number: int) -> None:
    if f"tenure{number}-host" in _run("-brief", "link"):
        _run("link", "delete", f"tenure{number}-host")
    for match in _NAME.finditer(_run("netns", "list")):
        if match["number"] == str(number):
            _run("netns", "delete", match[0])


def _ip() -> str:
    # The folders of the superuser are not in everybody's PATH.
    found = shutil.which("ip", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        raise MissingEngine("the command ip", "apt-get install -y iproute2, or leave out isolated=True")
    return found


def _run(*arguments: str) -> str:
    from tenure.testing.engines.cluster import EngineFailed  # noqa: PLC0415  (which imports this file)

    answer = subprocess.run([_ip(), *arguments], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise EngineFailed("ip", f"{' '.join(arguments)} says: {answer.stderr.strip()}", "it keeps none")
    return answer.stdout


@contextmanager
def _rights_needed() -> Iterator[None]:
    """What fails while a network is built is not allowed here. Later it is a fault, and no reason to skip a test."""
    from tenure.testing.engines.cluster import EngineFailed  # noqa: PLC0415

    try:
        yield
    except EngineFailed as error:
        fix = f"ip {error.what}; leave out isolated=True, or run where that is allowed"
        raise MissingEngine("the right to make network namespaces", fix) from error

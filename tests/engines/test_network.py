"""Networks of their own: who reaches whom, with every kind of cut, and nothing is left of them."""

import ctypes
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import permutations
from pathlib import Path

import pytest

from tenure.testing.engines import MissingEngine
from tenure.testing.engines.network import Cut, Network
from tests.engines.namespaces import NAMED, inodes

ENDS = ("n1", "n2", "n3", "tests")
ALL = set(permutations(ENDS, 2))
FROM_PEERS, TO_PEERS = {("n2", "n1"), ("n3", "n1")}, {("n1", "n2"), ("n1", "n3")}
_PORT = 12_000
_NETWORK_NAMESPACE = 0x40000000  # CLONE_NEWNET


def posts_of(network: Network) -> dict[str, socket.socket]:
    """A socket at each end. A socket belongs to the namespace in which it was made, wherever its process goes then."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    posts = {}
    for index, name in enumerate(ENDS[:-1]):
        namespace = os.open(Path("/run/netns") / network.enter(index)[-1], os.O_RDONLY)
        assert libc.setns(namespace, _NETWORK_NAMESPACE) == 0
        posts[name] = _post(network.hosts[index])
        os.close(namespace)
        assert libc.setns(own, _NETWORK_NAMESPACE) == 0
    os.close(own)
    posts["tests"] = _post(network.hosts[0].rpartition(".")[0] + ".254")
    return posts


def _post(host: str) -> socket.socket:
    post = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    post.bind((host, _PORT))
    return post


class World:
    """A network with somebody at each end who writes to all others."""

    def __init__(self) -> None:
        self.network = Network(3)
        self._posts = posts_of(self.network)

    def reaches(self) -> set[tuple[str, str]]:
        """Who reaches whom, in pairs of sender and receiver."""
        for sender, receiver in ALL:
            self._posts[sender].sendto(sender.encode(), self._posts[receiver].getsockname())
        # A packet between namespaces of one machine has arrived when the call that sends it returns.
        return {(sender, receiver) for receiver in ENDS for sender in self._read(receiver)}

    def _read(self, receiver: str) -> Iterator[str]:
        while True:
            try:
                yield self._posts[receiver].recv(100, socket.MSG_DONTWAIT).decode()
            except BlockingIOError:
                return

    def close(self) -> None:
        for post in self._posts.values():
            post.close()
        self.network.close()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("cut", "lost"),
    [
        (Cut(peers=True, clients=False), FROM_PEERS | TO_PEERS),
        (Cut(peers=True, clients=False, one_way="receiving"), FROM_PEERS),
        (Cut(peers=True, clients=False, one_way="sending"), TO_PEERS),
        (Cut(peers=False, clients=True), {("n1", "tests"), ("tests", "n1")}),
        (Cut(peers=False, clients=True, one_way="receiving"), {("tests", "n1")}),
        (Cut(peers=False, clients=True, one_way="sending"), {("n1", "tests")}),
        (Cut(peers=True, clients=True), {pair for pair in ALL if "n1" in pair}),
        (Cut(peers=True, clients=True, one_way="receiving"), {(sender, "n1") for sender in ENDS if sender != "n1"}),
        (Cut(peers=True, clients=True, one_way="sending"), {("n1", receiver) for receiver in ENDS if receiver != "n1"}),
    ],
    ids=[f"{from_}{way}" for from_ in ("peers", "clients", "both") for way in ("", "-receiving", "-sending")],
)
def test_a_cut_stops_what_it_says_and_nothing_else_until_it_is_healed(
    world: World, cut: Cut, lost: set[tuple[str, str]]
) -> None:
    assert world.reaches() == ALL
    world.network.cut([cut, None, None])
    assert world.reaches() == ALL - lost
    world.network.cut([None, None, None])
    assert world.reaches() == ALL


def test_healing_one_node_leaves_the_cut_of_another(world: World) -> None:
    cut = Cut(peers=True, clients=False)
    world.network.cut([cut, cut, None])
    world.network.cut([None, cut, None])
    assert world.reaches() == ALL - {("n1", "n2"), ("n2", "n1"), ("n2", "n3"), ("n3", "n2")}


def test_two_nodes_that_are_cut_off_in_one_way_each_lose_what_either_cut_stops(world: World) -> None:
    deaf, mute = Cut(peers=True, clients=False, one_way="receiving"), Cut(peers=True, clients=False, one_way="sending")
    world.network.cut([deaf, mute, None])
    assert world.reaches() == ALL - {("n2", "n1"), ("n3", "n1"), ("n2", "n3")}


def test_two_networks_at_once_have_different_addresses(world: World) -> None:
    other = Network(1)
    try:
        assert set(other.hosts).isdisjoint(world.network.hosts)
    finally:
        other.close()
    assert world.reaches() == ALL


def test_nothing_is_left_of_a_network_that_was_closed() -> None:
    network = Network(2)
    number = network.enter(0)[-1].partition("-")[0]
    with ExitStack() as stack:
        opened = [stack.enter_context(path.open("rb")) for path in NAMED.glob(f"{number}-*")]
        assert len(opened) == 3
        cable = socket.if_nametoindex(f"{number}-host")
        network.close()
        assert {os.fstat(one.fileno()).st_ino for one in opened}.isdisjoint(inodes())
        with pytest.raises(OSError, match="No such device"):
            socket.if_indextoname(cable)


def test_whoever_is_not_root_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MissingEngine, match=r"namespaces is missing: run as root, or leave out isolated=True$"):
        Network(1)


def test_whoever_lacks_the_command_ip_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(MissingEngine, match=r"^the command ip is missing: apt-get install -y iproute2"):
        Network(1)


def test_a_root_that_may_not_either_is_told_what_ip_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "ip"
    fake.write_text("#!/bin/sh\necho 'mount failed: Operation not permitted' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(MissingEngine, match=r"ip netns list says: mount failed: Operation not permitted; leave out"):
        Network(1)

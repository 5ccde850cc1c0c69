"""A program on kazoo that contends as its commands say. It stands for every kazoo program; nothing of tenure is in it.

Arguments: election|lock, endpoints, path, session timeout in seconds. Commands and events are those of the Go peer.
"""

import sys
import threading
import time
from collections.abc import Callable

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState
from kazoo.recipe.election import Election
from kazoo.recipe.lock import Lock

from tests.peers.lines import in_background, obey, say, took_ns

LOOK_S = 0.002  # at what is in memory
ASK_S = 0.02  # the engine


class Peer:
    """One candidate: it stands once at a time."""

    def __init__(self, kind: str, endpoints: str, path: str, ttl_s: float) -> None:
        assert kind in ("election", "lock"), f"{kind} is neither election nor lock"
        self.kind, self.path = kind, path
        self.client = KazooClient(hosts=endpoints, timeout=ttl_s)
        self.client.add_listener(self._state_changed)
        self.client.start()
        self.standing = threading.Thread()
        self.resigned = threading.Event()

    def campaign(self, value: str) -> None:
        self.resigned.clear()
        self.standing = in_background(lambda: self._stand(value))

    def resign(self, _: str) -> None:
        self.resigned.set()
        self.standing.join()

    def observe(self, _: str) -> None:
        in_background(self._look)

    def time(self, count: str) -> None:
        say("timed", took_ns=[took_ns(lambda: self._contest("timed")[1](lambda: None)) for _ in range(int(count))])

    def raw(self, count: str) -> None:
        """Time the two requests that no recipe can do without."""

        def pair() -> None:
            self.client.delete(self.client.create(f"{self.path}/raw-", ephemeral=True, sequence=True))

        self.client.ensure_path(self.path)
        say("timed", took_ns=[took_ns(pair) for _ in range(int(count))])

    def _contest(self, value: str) -> tuple[Lock, Callable[[Callable[[], None]], None]]:
        """Return a lock of kazoo, and what runs a body under it."""
        if self.kind == "election":
            election = Election(self.client, self.path, value)
            return election.lock, election.run
        lock = Lock(self.client, self.path, value)

        def run(body: Callable[[], None]) -> None:
            with lock:
                body()

        return lock, run

    def _stand(self, value: str) -> None:
        lock, run = self._contest(value)
        told = in_background(lambda: _tell_of_the_queue(lock))

        def body() -> None:
            at_ns = time.monotonic_ns()
            told.join()
            stat = self.client.exists(f"{self.path}/{lock.node}")
            assert stat is not None
            say("leading", at_ns, token=stat.czxid)
            self.resigned.wait()
            say("leaving")

        run(body)
        say("left")

    def _look(self) -> None:
        """Say who contends first, now and at every change: that is whom kazoo holds for the leader."""
        seen = ""
        while True:
            leader = next(iter(Lock(self.client, self.path).contenders()), "")
            if leader != seen:
                seen = leader
                say("observed", value=leader)
            time.sleep(ASK_S)

    def _state_changed(self, state: str) -> None:
        if state == KazooState.LOST:
            say("lost")


def _tell_of_the_queue(lock: Lock) -> None:
    while lock.node is None:  # kazoo tells nobody when the node is there.
        time.sleep(LOOK_S)
    say("standing")


if __name__ == "__main__":
    kind, endpoints, path, ttl_s = sys.argv[1:]
    peer = Peer(kind, endpoints, path, float(ttl_s))
    obey(
        {
            "campaign": peer.campaign,
            "resign": peer.resign,
            "observe": peer.observe,
            "time": peer.time,
            "raw": peer.raw,
        }
    )

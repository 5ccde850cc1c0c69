"""Peers: programs of others that contend for an office, each a process of its own, all driven in the same way.

A peer takes commands on stdin and tells of events on stdout, one a line. Every event has its time on CLOCK_MONOTONIC, which
all processes of a machine share, taken in the peer itself: when somebody began to lead is known exactly, however late we
read of it. ``standing`` (in the queue) comes before ``leading``, ``leaving`` is dated before the resignation is sent and
``left`` after it was answered. A peer ends with us: its stdin does.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from tenure.testing.engines import (
    ConsulCluster,
    EtcdCluster,
    KubernetesCluster,
    MissingEngine,
    ZooKeeperEnsemble,
)
from tenure.testing.engines.binaries import built_from, java

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# Patience, not a measure: whoever is right is there in milliseconds, and what is wrong never comes.
PATIENCE_S = 30.0
# A program that is to do little has no use for Java's best code, which takes longer to make than all that is tested.
QUICK_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

Program = Literal["go", "etcdctl", "curator", "kazoo", "consul", "tenure"]
Cluster = EtcdCluster | ZooKeeperEnsemble | ConsulCluster | KubernetesCluster


class Event(NamedTuple):
    """What a peer told of."""

    what: str
    at_ns: int
    fields: dict[str, Any]


@dataclass(frozen=True)
class Term:
    """One time in office, as its holder saw it. ``end_ns`` is None while it goes on."""

    who: str
    token: int
    begin_ns: int
    end_ns: int | None


class PeerFailed(AssertionError):
    """A peer did not do what was expected of it."""


class Peer:
    """One program. A context manager: it is killed at the end of the block."""

    def __init__(self, who: str, command: list[str], environment: dict[str, str]) -> None:
        self.who, self.command, self.environment = who, command, environment
        self._events: list[Event] = []
        self._unread: dict[str, int] = defaultdict(int)  # by kind: where in the list to look for the next one
        self._news = threading.Condition()
        self._ended = False
        self._killed_at_ns: int | None = None
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            cwd=ROOT,  # where a peer in Python is found as tests.peers.…
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # A peer may have children of its own; they die with it as one group.
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.wait("ready")
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def campaign(self) -> None:
        """Stand, with our own name as the value. What comes of it is waited for."""
        self._unread["standing"] = self._unread["leading"] = len(self._events)
        self.tell(f"campaign {self.who}")

    def wait_standing(self) -> Event:
        return self.wait("standing")

    def wait_leading(self, timeout_s: float = PATIENCE_S) -> Event:
        return self.wait("leading", timeout_s)

    def resign(self) -> Event:
        """Leave office; on return the engine knows. Returns the event that is dated before it was told."""
        self.tell("resign")
        leaving = self.wait("leaving")
        self.wait("left")
        return leaving

    def observe(self) -> None:
        """Look who is in office, from now on."""
        self.tell("observe")

    def wait_observed(self, value: str) -> Event:
        """Wait until somebody is seen in office whose value contains ``value``."""
        while True:
            event = self.wait("observed")
            if value in event.fields["value"]:
                return event

    def ask(self, command: str, answer: str, timeout_s: float = PATIENCE_S) -> Event:
        """Give a command, and return the event that answers it."""
        self.tell(command)
        return self.wait(answer, timeout_s)

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        print(command, file=self._process.stdin, flush=True)

    def wait(self, what: str, timeout_s: float = PATIENCE_S) -> Event:
        """Return the next event of this kind."""
        deadline_s = time.monotonic() + timeout_s
        with self._news:
            while True:
                for index in range(self._unread[what], len(self._events)):
                    if self._events[index].what == what:
                        self._unread[what] = index + 1
                        return self._events[index]
                left_s = deadline_s - time.monotonic()
                if self._ended or left_s <= 0:
                    why = "it has ended" if self._ended else f"{timeout_s} s have passed"
                    raise PeerFailed(
                        f"{self.who}: {what!r} did not come and {why}; its last words: {self._events[-5:]}"
                    )
                self._news.wait(left_s)

    def kill(self) -> None:
        """Kill it with SIGKILL, and its children; on return it is gone."""
        self._killed_at_ns = time.monotonic_ns()
        self.end()

    def terms(self) -> list[Term]:
        """The times in office so far, in order."""
        terms: list[Term] = []
        for event in self._events:
            if event.what == "leading":
                terms.append(Term(self.who, event.fields["token"], event.at_ns, self._killed_at_ns))
            elif event.what in ("leaving", "lost") and terms:
                last = terms.pop()
                terms.append(Term(last.who, last.token, last.begin_ns, event.at_ns))
        return terms

    def end(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            fields = json.loads(line)
            with self._news:
                self._events.append(Event(fields.pop("event"), fields.pop("at_ns"), fields))
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


def start_peer(
    program: Program,
    kind: str,
    cluster: Cluster,
    name: str,
    who: str,
    *,
    ttl_s: float = 4,
    lock_delay_s: float = 0,
    jvm: Sequence[str] = QUICK_JVM,
) -> Peer:
    """Start a program that contends for ``name`` as ``who``. ``kind`` is what its own library calls it: latch, mutex, …

    client-go is told to ``release`` the Lease when it resigns, or to ``keep`` it; its three durations are in its own
    proportions, 15/10/2. The ``lock_delay_s`` of a Go program on Consul is the engine's own, 15 s, if it is 0.
    Who measures says ``jvm=()``: Curator as its users run it.
    """
    if program == "tenure":
        told = [kind, _our_url(cluster), name, f"{ttl_s:g}"]
    elif isinstance(cluster, ConsulCluster):
        # What ``consul lock x`` locks is the key x/.lock, which a Go program is told itself.
        told = [kind, name] if program == "consul" else [kind, f"{name}/.lock", f"{ttl_s:g}", f"{lock_delay_s:g}"]
    elif isinstance(cluster, KubernetesCluster):
        told = [kind, str(cluster.kubeconfig), name, *(f"{ttl_s * part / 15:g}" for part in (15, 10, 2))]
    else:
        told = [kind, ",".join(cluster.endpoints), name, f"{ttl_s:g}"]
    return Peer(who, [*_command(program, cluster, jvm), *told], _environment(cluster))


def _our_url(cluster: Cluster) -> str:
    if cluster.tls is None or isinstance(cluster, KubernetesCluster):  # whose kubeconfig says all
        return cluster.url
    client = cluster.tls.client
    return f"{cluster.url}?ca={cluster.tls.ca}&cert={client.certificate}&key={client.key}"


def _environment(cluster: Cluster) -> dict[str, str]:
    if isinstance(cluster, ConsulCluster):
        return cluster.environment()
    if cluster.tls is None or isinstance(cluster, KubernetesCluster):
        return {}
    files = {"CACERT": cluster.tls.ca, "CERT": cluster.tls.client.certificate, "KEY": cluster.tls.client.key}
    return {f"ETCDCTL_{name}": str(file) for name, file in files.items()}


def _command(program: Program, cluster: Cluster, jvm: Sequence[str]) -> list[str]:
    match program:
        case "go":
            return [str(built("go") / cluster.engine)]
        case "curator":
            return [java(), *jvm, "-cp", f"{built('java')}/lib/*", "peer.Peer"]
        case "etcdctl" | "consul":
            return [sys.executable, "-m", f"tests.peers.{program}_peer", cluster.binary.tool]
        case _:
            return [sys.executable, "-m", f"tests.peers.{program}_peer"]


def built(language: str) -> Path:
    """Where ``make engines`` has put the peer in this language, as its sources are now; raises MissingEngine."""
    folder = built_from(HERE / language)
    if not folder.is_dir():
        raise MissingEngine(f"the peer in tests/peers/{language}", "make engines")
    return folder


def alternate(first: Peer, second: Peer, times: int, *, settle_s: float = 0) -> list[int]:
    """Let two peers hand the office to each other; return the nanoseconds from each resignation to the next win.

    ``first`` is in office when it begins, and whoever waits is in the queue before the other one resigns. It may not watch
    its predecessor yet; and etcd takes up to a tenth of a second until a watch that begins in the past, as Go's does, is up
    to date. Who measures gives it ``settle_s`` for that; who tests does not, for that is a case as well.
    """
    took_ns = []
    leader, standby = first, second
    for _ in range(times):
        standby.campaign()
        standby.wait_standing()
        time.sleep(settle_s)
        left = leader.resign()
        took_ns.append(standby.wait_leading().at_ns - left.at_ns)
        leader, standby = standby, leader
    return took_ns


def contend(peers: Sequence[Peer], turns: int) -> None:
    """Let all stand at once, and each again as soon as it has left, until each has led so many times."""

    def take_turns(peer: Peer) -> None:
        for _ in range(turns):
            peer.campaign()
            peer.wait_leading()
            peer.resign()

    with ThreadPoolExecutor(len(peers)) as threads:
        for done in [threads.submit(take_turns, peer) for peer in peers]:
            done.result()


def check_terms(*peers: Peer, repeating: Collection[Peer] = ()) -> int:
    """Assert that nobody led before the one before had ended, and that tokens rose; return how many terms there were.

    Those of ``repeating`` may have the same token again when they follow themselves: a client-go whose release was refused
    still holds the Lease as the engine sees it, and leads on without a transition. Whoever follows it has a larger one.
    """
    may_repeat = {term.who for peer in repeating for term in peer.terms()}
    terms = sorted((term for peer in peers for term in peer.terms()), key=lambda term: term.begin_ns)
    for before, after in pairwise(terms):
        assert before.end_ns is not None, f"{before} went on when {after} began"
        assert before.end_ns <= after.begin_ns, f"{after} began before the end of {before}"
        rose = before.token < after.token
        again = before.token == after.token and before.who == after.who and after.who in may_repeat
        assert rose or again, f"{after} has no larger token than {before}"
    return len(terms)

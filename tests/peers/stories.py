"""What happens between two peers on any engine alike: they take turns, one is killed, one is seen by the other.

A fleet is mixed: one candidate of ours and one of theirs, in one election or one lock. The name is all that they are told.
Nobody is told that others are of another kind.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tenure.testing.engines import EtcdCluster, ZooKeeperEnsemble
from tests.peers.driver import Peer, Program, alternate, check_terms, start_peer

Kind = tuple[Program, str]
HAND_OVERS = 200
DYING_TTL_S = 2  # the shortest that an etcd as shipped has
_LOCKS = ("mutex", "lock")


def ours(theirs: Kind) -> str:
    """What we hold where they hold this."""
    return "lock" if theirs[1] in _LOCKS else "election"


def path(cluster: EtcdCluster | ZooKeeperEnsemble, name: str) -> str:
    """What a program on the engine's own library calls the election that is ``name`` for us."""
    return f"/{name}" if isinstance(cluster, ZooKeeperEnsemble) else name


@contextmanager
def fleet(
    cluster: EtcdCluster | ZooKeeperEnsemble, theirs: Kind, name: str, ttl_s: int = 4
) -> Iterator[tuple[Peer, Peer]]:
    """One candidate of ours and one of theirs."""
    with (
        start_peer("tenure", ours(theirs), cluster, name, "we", ttl_s=ttl_s) as we,
        start_peer(*theirs, cluster, path(cluster, name), "they", ttl_s=ttl_s) as they,
    ):
        yield we, they


def check_hand_overs(cluster: EtcdCluster | ZooKeeperEnsemble, theirs: Kind) -> None:
    """Hand the office to each other, again and again."""
    with fleet(cluster, theirs, f"turns/{'-'.join(theirs)}") as (we, they):
        they.campaign()
        they.wait_leading()
        alternate(they, we, HAND_OVERS)
        assert check_terms(we, they) == HAND_OVERS + 1


def check_they_die(
    cluster: EtcdCluster | ZooKeeperEnsemble,
    theirs: Kind,
    *,
    seen: bool,
    bury: Callable[[str], None] = lambda _: None,
) -> None:
    """They lead, we wait and look, they are killed, and we lead. ``bury`` ends what time would not end soon."""
    name = f"they-die/{'-'.join(theirs)}"
    with fleet(cluster, theirs, name, DYING_TTL_S) as (we, they):
        they.campaign()
        they.wait_leading()
        we.observe()
        if seen:
            assert we.wait_observed("they").fields["value"] == "they"
        we.campaign()
        we.wait_standing()
        they.kill()
        bury(name)
        we.wait_leading()
        assert check_terms(we, they) == 2


def check_we_die(cluster: EtcdCluster | ZooKeeperEnsemble, theirs: Kind) -> None:
    """We lead, they wait and, if they can, look; we are killed, and they lead.

    Who is first in the queue of a lock can be seen with the libraries of ZooKeeper. Those of etcd tell nobody who holds it.
    """
    with fleet(cluster, theirs, f"we-die/{'-'.join(theirs)}", DYING_TTL_S) as (we, they):
        we.campaign()
        we.wait_leading()
        if ours(theirs) == "election" or isinstance(cluster, ZooKeeperEnsemble):
            they.observe()
            # A lock advertises nothing; who holds it is told with its process.
            assert they.wait_observed('"advertise":"we"' if ours(theirs) == "election" else f"/{we.pid}/")
        they.campaign()
        they.wait_standing()
        we.kill()
        they.wait_leading()
        assert check_terms(we, they) == 2


def check_lease_ends(ada: Peer, bob: Peer) -> None:
    """Kill whoever leads by a lease of two seconds, and see that the next one waits for its end."""
    ada.campaign()
    ada.wait_leading()
    bob.campaign()
    bob.wait_standing()
    killed_at_ns = time.monotonic_ns()
    ada.kill()
    # Renewed at thirds of its 2 s, so most of the lease was left; and nothing but its end ended ada's office.
    assert bob.wait_leading().at_ns - killed_at_ns > 300_000_000
    assert check_terms(ada, bob) == 2

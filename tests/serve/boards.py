"""Boards as they may look at three in the morning, for tests, pictures and the bench: made of pictures of a store and of facts."""

import random
import time
from collections.abc import Iterator

from tenure.errors import Reason
from tenure.facts.kinds import Elected, Fact, Left, Overstayed, RefusedStale, Renewed, Stood, What
from tenure.model import Bid, Holder, Incumbent, Token
from tenure.plan import Budget
from tenure.serve.board import Board
from tenure.stores.base import ElectionStatus
from tenure.timing import Timing

STORE = "etcd://etcd-0.ops:2379,etcd-1.ops:2379,etcd-2.ops:2379"
TTL_S = 8.0
_AREAS = ("billing", "search", "mail", "ledger", "media", "fleet", "maps", "auth", "stock", "orders")
_JOBS = ("close", "index", "digest", "compact", "sync", "sweep", "export", "rotate", "rollup", "reindex")


def holder(name: str, pid: int = 1) -> Holder:
    return Holder(name, pid, f"{name}-{pid}")


def status(
    election: str,
    leader: Holder | None,
    token: int = 1,
    *,
    held_s: float | None = None,
    left_s: float | None = None,
    standbys: tuple[Holder, ...] = (),
    resign_asked: bool = False,
    advertised: str = "",
) -> ElectionStatus:
    """One election as the store shows it."""
    incumbent = None if leader is None else Incumbent(election, leader, Token(token), advertised)
    held_ns = None if held_s is None else round(held_s * 1e9)
    left_ns = None if left_s is None else round(left_s * 1e9)
    return ElectionStatus(election, incumbent, held_ns, left_ns, resign_asked, standbys)


def fact(what: What, at_s: float, election: str = "", who: Holder | None = None) -> Fact:
    return Fact(what, 0, at_s, STORE, election, who)


def renewed(at_s: float, election: str, who: Holder, margin_s: float) -> Fact:
    bids = (Bid(election, who, 1, round(TTL_S * 1e9)),)
    return Fact(Renewed(bids, round(margin_s * 1e9), 2_000_000), 0, at_s, STORE)


def board(*, read_only: bool = False) -> Board:
    """An empty one."""
    return Board(STORE, None, Budget.of(Timing.of(ttl=TTL_S)), instance="sidecar on ops-3", read_only=read_only)


def names(count: int) -> Iterator[str]:
    for number in range(count):
        area, job = _AREAS[number % 10], _JOBS[number // 10 % 10]
        yield f"{area}/{job}" if number < 100 else f"{area}/{job}/{number:04}"


def crowded(count: int = 37) -> tuple[Board, float]:
    """A night with all that can go wrong, among elections that are well. Returns the board and the time on it."""
    chance, made, now_s = random.Random(7), board(), time.time()
    made.store_is(ok=True, at_s=now_s - 86_000, members={"etcd-0.ops": True, "etcd-1.ops": True, "etcd-2.ops": False})
    hosts = [holder(f"{area}-{number}", 4000 + number) for number, area in enumerate(("web-a", "web-b", "batch-c"))]
    well = list(names(count))[: count - 6]
    pictures: list[ElectionStatus] = []
    for election in well:
        leader, token = chance.choice(hosts), chance.randrange(2, 900)
        others = tuple(host for host in hosts if host is not leader)
        _past(made, election, now_s, chance, token)
        pictures.append(status(election, leader, token, left_s=6.5, standbys=others))
        made.heard(fact(Elected(Token(token), 0), now_s - chance.uniform(200, 800), election, leader))
        for beat in range(60):
            margin_s = 5.9 + chance.gauss(0, 0.12)
            made.heard(renewed(now_s - 120 + beat * 2, election, leader, margin_s))
    pictures += list(_troubled(hosts))
    made.saw(pictures, now_s - 0.5)
    _in_trouble(made, now_s, hosts)
    made.changes()
    return made, now_s


def _past(made: Board, election: str, now_s: float, chance: random.Random, token: int) -> None:
    if token % 3 == 0:
        at_s = now_s - chance.uniform(860, 1200)
        made.heard(fact(Elected(Token(token - 1), 0), at_s - 5000, election, holder("web-b-1", 4001)))
        made.heard(fact(Left(Token(token - 1), Reason.RESIGNED), at_s, election, holder("web-b-1", 4001)))


def _troubled(hosts: list[Holder]) -> Iterator[ElectionStatus]:
    one, two, three = hosts
    yield status("payments/settle", None, standbys=(two, three))
    yield status("dns/zones", None)
    yield status("ledger/post", two, 42, left_s=7.0, standbys=(three,))
    yield status("warehouse/pick", one, 311, left_s=1.1, standbys=(two,))
    yield status("chat/presence", three, 58, left_s=6.0, standbys=(one, two))
    yield status("reports/monthly", None)


def _in_trouble(made: Board, now_s: float, hosts: list[Holder]) -> None:
    one, two, three = hosts
    # Its leader died, and those who stand by cannot reach the sink that they have to seal.
    made.heard(fact(Elected(Token(17), 0), now_s - 700, "payments/settle", one))
    made.heard(fact(Left(Token(17), Reason.LAPSED), now_s - 47, "payments/settle", one))
    made.heard(fact(Elected(Token(8), 0), now_s - 1600, "dns/zones", two))
    made.heard(fact(Left(Token(8), Reason.STORE_GONE), now_s - 212, "dns/zones", two))
    # A leader that was frozen goes on with what it had begun.
    made.heard(fact(Elected(Token(41), 0), now_s - 640, "ledger/post", one))
    made.heard(fact(Elected(Token(42), 0), now_s - 33, "ledger/post", two))
    made.heard(fact(Overstayed(Token(41), 10**9), now_s - 39, "ledger/post", one))
    for ago_s in (21, 14, 6):
        made.heard(fact(RefusedStale("SQLiteSink", 41, 42), now_s - ago_s, "ledger/post"))
    for beat, margin_s in enumerate((5.9, 5.8, 5.9, 5.7, 5.2, 4.4, 4.9, 3.1, 3.8, 2.4, 1.3)):
        made.heard(fact(Stood(8 * 10**9), now_s - 900, "warehouse/pick", one))
        if not beat:
            made.heard(fact(Elected(Token(311), 0), now_s - 500, "warehouse/pick", one))
        made.heard(renewed(now_s - 24 + 2 * beat, "warehouse/pick", one, margin_s))
    for number in range(5):
        who, at_s = hosts[number % 3], now_s - 250 + 48 * number
        made.heard(fact(Elected(Token(53 + number), 0), at_s, "chat/presence", who))
        made.heard(fact(Left(Token(53 + number), Reason.LAPSED), at_s + 39, "chat/presence", who))
    made.heard(fact(Elected(Token(58), 0), now_s - 9, "chat/presence", three))
    made.heard(fact(Elected(Token(4), 0), now_s - 3000, "reports/monthly", three))
    made.heard(fact(Left(Token(4), Reason.RESIGNED), now_s - 1100, "reports/monthly", three))

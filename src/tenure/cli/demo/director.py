"""The director: three acts, in which every step waits for the one before it to have happened.

A leader is struck at one point only: it is ready to pay (its tenure checked, nothing sent), and its lease has just been
renewed. The first makes its write as late as a write can be. The second makes the wait for a successor as long as it can
be, and keeps the blow out of a renewal: a process frozen inside a transaction holds the lock of the file, and everybody
would wait for it instead of succeeding it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tenure.cli.demo import ledger
from tenure.cli.demo.company import folder_of_the_demo
from tenure.cli.demo.happening import Happening, StoryBroken, What
from tenure.cli.demo.judge import UNFENCED_ACT
from tenure.cli.demo.show import Show
from tenure.cli.demo.stage import Scene, Stage
from tenure.cli.demo.wording import PAUSE_TTLS
from tenure.clock import BootClock

_FIRST: Final = "A"
_OTHERS: Final = ("B", "C")
_PACE_TTLS: Final = 0.4  # between payments, so that a person can read along
_REST_TTLS: Final = 0.8  # at the end of an act, for the same reason


def play(ttl_s: float, show: Show) -> tuple[list[Happening], str | None]:
    """Play the three acts; return their history, and why it ends early if it does.

    Leaves neither a process nor a file behind, however it is left. Only if it is killed, its folder stays.
    """
    with folder_of_the_demo() as folder:
        return _play(folder, ttl_s, show)


def _play(folder: Path, ttl_s: float, show: Show) -> tuple[list[Happening], str | None]:
    broken: str | None = None
    fenced = _stage(folder / "fenced", 1, ttl_s, show)
    unfenced = _stage(folder / "unfenced", UNFENCED_ACT, ttl_s, show)
    try:
        with fenced:
            leader = _freeze_a_leader(fenced)
            fenced.act = 2
            _kill_a_leader(fenced, leader)
        with unfenced:
            _freeze_a_leader(unfenced)
    except StoryBroken as error:
        broken = str(error)
    return fenced.history + unfenced.history, broken


def _stage(folder: Path, act: int, ttl_s: float, show: Show) -> Stage:
    folder.mkdir()
    scene = Scene(folder / "store.db", folder / "ledger.db", ttl_s, fenced=act != UNFENCED_ACT)
    ledger.create(scene.ledger)
    return Stage(scene, act, show)


def _freeze_a_leader(stage: Stage) -> str:
    """Acts 1 and 3: a leader sleeps past its lease, and wakes up to write. Returns who succeeded it."""
    stage.start(_FIRST)
    token = _next_leader(stage, 0).token
    for name in _OTHERS:
        stage.start(name)
    for name in _OTHERS:
        stage.wait_for(_that(name, What.WAITS), f"{name} to stand by")
    _pay(stage, _FIRST, 1)
    _pay(stage, _FIRST, 2)
    frozen = _strike(stage, _FIRST, What.FROZEN, 3)
    successor = _next_leader(stage, token).who
    _pay(stage, successor, 3, at_once=True)
    _pay(stage, successor, 4)
    stage.watch_until(frozen.at_ns + round(PAUSE_TTLS * stage.scene.ttl_s * 1e9), f"{_FIRST} to wake up")
    # The order lies in its pipe when it wakes: it sends what it had ready, as if it had never slept.
    stage.let_pay(_FIRST)
    stage.strike(_FIRST, What.WOKEN, frozen)
    accepted, rejected = _that(_FIRST, What.ACCEPTED, 3), _that(_FIRST, What.REJECTED, 3)
    answer = stage.wait_for(lambda found: accepted(found) or rejected(found), f"the write of {_FIRST}")
    # Refused, it ends itself. Accepted, it notices by its clock alone that its lease is over, and leaves office.
    end = What.ENDED if rejected(answer) else What.LEFT
    stage.wait_for(_that(_FIRST, end), f"{_FIRST} to find out")
    _audit(stage)
    return successor


def _kill_a_leader(stage: Stage, leader: str) -> None:
    """Act 2: a leader dies without a word, and the last candidate takes over."""
    _pay(stage, leader, 5)
    token = _strike(stage, leader, What.KILLED, 6).token
    _pay(stage, _next_leader(stage, token).who, 6, at_once=True)
    _audit(stage)


def _that(who: str, what: What, invoice: int = 0) -> Callable[[Happening], bool]:
    return lambda found: (found.who, found.what, found.invoice) == (who, what, invoice)


def _next_leader(stage: Stage, token: int) -> Happening:
    meaning = "the lease to run out" if token else "the first leader"
    return stage.wait_for(lambda found: found.what is What.ELECTED and found.token > token, meaning)


def _pay(stage: Stage, leader: str, invoice: int, *, at_once: bool = False) -> None:
    """Let a leader pay an invoice."""
    stage.wait_for(_that(leader, What.READY, invoice), f"{leader} to be ready to pay invoice {invoice}")
    if not at_once:
        _rest(stage, _PACE_TTLS, f"{leader} to think")
    stage.let_pay(leader)
    stage.wait_for(_that(leader, What.ACCEPTED, invoice), f"{leader} to pay invoice {invoice}")


def _strike(stage: Stage, leader: str, what: What, invoice: int) -> Happening:
    """Freeze or kill a leader that is ready to pay an invoice."""
    ready = stage.wait_for(_that(leader, What.READY, invoice), f"{leader} to be ready to pay invoice {invoice}")
    stage.wait_for(_that(leader, What.RENEWED), f"{leader} to renew its lease", since=len(stage.history))
    return stage.strike(leader, what, ready)


def _rest(stage: Stage, ttls: float, meaning: str) -> None:
    stage.watch_until(BootClock().now() + round(ttls * stage.scene.ttl_s * 1e9), meaning)


def _audit(stage: Stage) -> None:
    """Look into the ledger itself, whatever the candidates have said."""
    books = ledger.read(stage.scene.ledger)
    stage.happened(What.AUDITED, "ledger", payments=books.payments, total=books.total, faults=books.faults())
    _rest(stage, _REST_TTLS, "you to read")

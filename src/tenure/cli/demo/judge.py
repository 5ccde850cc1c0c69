"""What the demo has shown, read from its history alone: the figures, and whether the story happened.

All instants are of one boot clock, so those of different processes may be compared. Between machines they may not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tenure.cli.demo.happening import Happening, What

ACTS = (1, 2, 3)
ZOMBIE_ACTS = (1, 3)  # in which a leader sleeps and wakes
UNFENCED_ACT = 3
_ANSWERS = (What.ACCEPTED, What.REJECTED)


@dataclass(frozen=True, slots=True)
class Takeover:
    """The pieces of the time without a leader, one after the other: from the signal to the successor's first payment."""

    detect_ns: int  # signal → the claim that will be granted is sent: the lease must run out first
    elect_ns: int  # claim sent → granted
    seal_ns: int  # granted → the body may begin: the fence of the ledger is raised in between, if there is one
    write_ns: int  # the body may begin → its first payment is accepted
    total_ns: int


@dataclass(frozen=True, slots=True)
class Audit:
    """The ledger at the end of an act, as its file has it."""

    payments: Sequence[tuple[int, str, int]]  # invoice, who paid, token; in the order of writing
    total: int
    faults: Sequence[str]


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured in one act."""

    act: int
    takeover: Takeover | None
    stale_tried: int
    stale_accepted: int
    audit: Audit | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The figures of all acts, and everything because of which the demo has not shown what it says."""

    figures: Sequence[Figures]
    problems: Sequence[str]

    @property
    def exit_code(self) -> int:
        return 1 if self.problems else 0


def judge(history: Sequence[Happening], broken: str | None = None) -> Verdict:
    """Return the verdict on a history. ``broken`` says why it ends early, if it does."""
    figures = [_figures(act, history) for act in ACTS]
    problems = [problem for figure in figures for problem in _problems(figure)]
    if broken is not None:
        # Then whatever else is missing is missing because of that. A promise that was broken before is not.
        problems = [f"the story did not happen: {broken}", *_broken_promises(figures)]
    return Verdict(figures, problems)


def is_stale(write: Happening, history: Sequence[Happening]) -> bool:
    """Say whether somebody with a larger token was in office before this write was sent."""
    return any(
        other.what is What.ELECTED
        and other.token > write.token
        and other.at_ns < write.at_ns
        # Acts 1 and 2 have one store; act 3 has its own, in which the tokens begin anew.
        and (other.act == UNFENCED_ACT) == (write.act == UNFENCED_ACT)
        for other in history
    )


def _figures(act: int, history: Sequence[Happening]) -> Figures:
    here = [found for found in history if found.act == act]
    answers = {(found.who, found.token, found.invoice): found.what for found in here if found.what in _ANSWERS}
    stale = [found for found in here if found.what is What.SENDS and is_stale(found, history)]
    # A write without an answer shows nothing, so it counts as none.
    answered = [answers[key] for found in stale if (key := (found.who, found.token, found.invoice)) in answers]
    audits = [found.more for found in here if found.what is What.AUDITED]
    audit = Audit(audits[-1]["payments"], audits[-1]["total"], audits[-1]["faults"]) if audits else None
    return Figures(act, _takeover(here), len(answered), answered.count(What.ACCEPTED), audit)


def _takeover(history: Sequence[Happening]) -> Takeover | None:
    """Return how the first leader elected after the signal came to its first payment, or None if none did."""
    signals = [found for found in history if found.what in (What.FROZEN, What.KILLED)]
    if not signals:
        return None
    struck_ns = signals[0].at_ns
    elected = [found for found in history if found.what is What.ELECTED and found.at_ns > struck_ns]
    if not elected:
        return None
    token = elected[0].token
    granted = [found for found in history if found.what is What.GRANTED and found.token == token]
    accepted = [found for found in history if found.what is What.ACCEPTED and found.token == token]
    if not granted or not accepted:
        return None
    instants = (struck_ns, granted[0].more["sent_ns"], granted[0].at_ns, elected[0].at_ns, accepted[0].at_ns)
    detect_ns, elect_ns, seal_ns, write_ns = (later - earlier for earlier, later in pairwise(instants))
    return Takeover(detect_ns, elect_ns, seal_ns, write_ns, instants[-1] - struck_ns)


def _problems(figure: Figures) -> list[str]:
    problems = _broken_promises([figure])
    if figure.takeover is None:
        problems.append(f"act {figure.act}: nobody took over and paid")
    if figure.audit is None:
        problems.append(f"act {figure.act}: the ledger was never looked at")
    if figure.act in ZOMBIE_ACTS and not figure.stale_tried:
        problems.append(f"act {figure.act}: no stale write was tried, so nothing was shown")
    if figure.act == UNFENCED_ACT and not (figure.stale_accepted and figure.audit and figure.audit.faults):
        problems.append(f"act {figure.act}: the ledger without a fence was not corrupted, so nothing was shown")
    return problems


def _broken_promises(figures: Sequence[Figures]) -> list[str]:
    problems = []
    for figure in figures:
        if figure.act != UNFENCED_ACT:
            if figure.stale_accepted:
                problems.append(f"act {figure.act}: the fenced ledger accepted {figure.stale_accepted} stale writes")
            if figure.audit and figure.audit.faults:
                problems.append(f"act {figure.act}: the fenced ledger is corrupt: {'; '.join(figure.audit.faults)}")
    return problems

"""The words of the demo: what stands in which column, and the report at its end. Plain text, in at most 80 columns."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import zip_longest
from typing import Final, NamedTuple

from tenure.cli.demo.happening import Happening, What
from tenure.cli.demo.judge import Audit, Figures, Verdict, is_stale

PAUSE_TTLS: Final = 2.5  # how long the leader of acts 1 and 3 sleeps, in leases: as 45 s are to 18 s
COLUMNS: Final = ("A", "B", "C", "store", "ledger")
_NAMES: Final = ("1: frozen", "2: killed", "3: frozen, without fence")
_HALF_COLUMNS: Final = 34


class Tone(StrEnum):
    """How something is meant."""

    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"
    LOUD = "loud"
    TITLE = "title"


class Cell(NamedTuple):
    """What stands in one column of the timeline."""

    column: str
    text: str
    tone: Tone = Tone.PLAIN


class Span(NamedTuple):
    """A part of a line."""

    text: str
    tone: Tone = Tone.PLAIN


# What is left out is not shown: renewals, for one, of which there are many.
_WORDS: Final = {
    What.STARTED: (Cell("{who}", "is pid {pid}"),),
    What.WAITS: (Cell("{who}", "stands by"),),
    What.GRANTED: (Cell("{who}", "claims"), Cell("store", "token {token}")),
    What.SEALED: (Cell("ledger", "fence at {token}"),),
    What.ELECTED: (Cell("{who}", "LEADS, token {token}", Tone.LOUD),),
    What.ACCEPTED: (Cell("{who}", "pays invoice {invoice}"), Cell("ledger", "ACCEPTED total {total}", Tone.GOOD)),
    What.REJECTED: (
        Cell("{who}", "pays invoice {invoice}"),
        Cell("ledger", "REJECTED, token {token} < {highest}", Tone.BAD),
    ),
    What.FROZEN: (Cell("{who}", "FROZEN before paying {invoice}", Tone.LOUD),),
    What.WOKEN: (Cell("{who}", "WAKES UP", Tone.LOUD),),
    What.KILLED: (Cell("{who}", "KILLED before paying {invoice}", Tone.LOUD),),
    What.OVERSTAYED: (Cell("{who}", "late by {late_by_s:.1f} s"),),
    What.LEFT: (Cell("{who}", "left: {reason}"),),
    What.ENDING: (Cell("{who}", "ENDS ITSELF", Tone.LOUD),),
    What.AUDITED: (Cell("ledger", "sound, total {total}", Tone.GOOD),),
}
_STALE_ACCEPTED: Final = (
    Cell("{who}", "pays invoice {invoice}"),
    Cell("ledger", "ACCEPTED stale token {token}", Tone.BAD),
)
_CORRUPT: Final = (Cell("ledger", "CORRUPT: {faults[0]}", Tone.BAD),)


def heading(act: int, ttl_s: float) -> list[str]:
    """Return what is said before an act."""
    pause_s = PAUSE_TTLS * ttl_s
    return {
        1: [
            "ACT 1: the leader is frozen in the middle of a write",
            f"SIGSTOP for {pause_s:g} s, lease {ttl_s:g} s: as a pause of 45 s is to a lease of 18 s",
        ],
        2: ["ACT 2: the leader is killed", "SIGKILL, so it can tell nobody"],
        3: ["ACT 3: act 1 again, without the fence", "the same program; its ledger asks for no token"],
    }[act]


def cells(happening: Happening, history: Sequence[Happening]) -> list[Cell]:
    """Return what the timeline shows of a happening: nothing, or something in one column or two."""
    words = _WORDS.get(happening.what, ())
    if happening.what is What.ACCEPTED and is_stale(happening, history):
        words = _STALE_ACCEPTED
    if happening.what is What.AUDITED and happening.more["faults"]:
        words = _CORRUPT
    known = {"who": happening.who, "token": happening.token, "invoice": happening.invoice, **happening.more}
    known["late_by_s"] = known.get("late_by_ns", 0) / 1e9
    return [Cell(column.format(**known), text.format(**known), tone) for column, text, tone in words]


def report(verdict: Verdict, ttl_s: float) -> Iterator[Sequence[Span]]:
    """Return the lines at the end: what was measured, what it shows, and what to try next."""
    fenced, _, unfenced = audits = [figure.audit for figure in verdict.figures]
    if fenced and unfenced:
        yield _title("The ledgers of act 1 and act 3")
        yield from _side_by_side(fenced, unfenced)
    if all(audits):
        yield _title("Without a leader, in seconds on the clock of this machine")
        yield from _takeovers(verdict.figures, ttl_s)
        yield _title("Stale writes")
        yield from _stale_writes(verdict.figures)
    yield ()
    for problem in verdict.problems:
        yield (Span(f"FAILED: {problem}", Tone.BAD),)
    if not verdict.problems:
        yield (Span("The fence held. Without it the same program corrupted its ledger.", Tone.GOOD),)
        yield _title("Try next")
        yield (Span("  tenure run my/election -- sleep 60   in two terminals; then end one"),)
        yield (Span("  tenure status                        who leads"),)
        yield (Span("  tenure sim --seeds 500               500 worlds that break in other ways"),)


def _title(text: str) -> Sequence[Span]:
    return Span("\n"), Span(text, Tone.TITLE)


def _side_by_side(fenced: Audit, unfenced: Audit) -> Iterator[Sequence[Span]]:
    columns = [Span("with the fence"), *_ledger(fenced)], [Span("without"), *_ledger(unfenced)]
    for left, right in zip_longest(*columns, fillvalue=Span("")):
        yield Span("  "), Span(f"{left.text:<{_HALF_COLUMNS}}", left.tone), right
    for fault in unfenced.faults:
        yield Span(" " * (_HALF_COLUMNS + 2)), Span(fault, Tone.BAD)


def _ledger(audit: Audit) -> Iterator[Span]:
    highest = 0
    for invoice, paid_by, token in audit.payments:
        text = f"invoice {invoice} paid by {paid_by}, token {token}"
        yield Span(text) if token >= highest else Span(f"{text}, STALE", Tone.BAD)
        highest = max(highest, token)
    sound = not audit.faults
    yield Span(f"total {audit.total}, {'sound' if sound else 'CORRUPT'}", Tone.GOOD if sound else Tone.BAD)


def _takeovers(figures: Sequence[Figures], ttl_s: float) -> Iterator[Sequence[Span]]:
    yield (Span(f"  {'':<26}{'detect':>8}{'elect':>8}{'seal':>8}{'write':>8}{'total':>8}"),)
    for figure, name in zip(figures, _NAMES, strict=True):
        found = figure.takeover
        if found is None:
            yield (Span(f"  {name:<26}nobody took over"),)
        else:
            pieces_ns = (found.detect_ns, found.elect_ns, found.seal_ns, found.write_ns, found.total_ns)
            yield (Span(f"  {name:<26}" + "".join(f"{piece_ns / 1e9:8.3f}" for piece_ns in pieces_ns)),)
    yield (Span(f"  detect  from the signal until a standby sends its claim; the lease is {ttl_s:g} s"),)
    yield (Span("  elect   until the store has granted it"),)
    yield (Span("  seal    until it leads; the fence is raised first, where there is one"),)
    yield (Span("  write   until the ledger has accepted its first payment"),)


def _stale_writes(figures: Sequence[Figures]) -> Iterator[Sequence[Span]]:
    yield (Span(f"  {'':<26}{'tried':>8}{'accepted':>10}"),)
    for figure, name in zip(figures, _NAMES, strict=True):
        tone = Tone.BAD if figure.stale_accepted else Tone.GOOD if figure.stale_tried else Tone.PLAIN
        yield Span(f"  {name:<26}{figure.stale_tried:>8}"), Span(f"{figure.stale_accepted:>10}", tone)

"""What the Raft paper says of its figure 16, beside what we have measured, with a sentence on every difference."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tenure.lab.raft.figure16 import BROADCAST_MS, GIVE_UP_S, TRIALS, Line

CLOSE: Final = 0.1  # A tenth is what the paper's own plot can be read to.


@dataclass(frozen=True, slots=True)
class Claim:
    """One number of the paper's text: of which line, which statistic, and what may make ours another."""

    low_ms: int
    high_ms: int
    statistic: str
    theirs_ms: float
    reason: str

    def ours_ms(self, line: Line) -> float:
        """Return the same statistic of ours."""
        return {"least": line.times_ms[0], "median": line.median_ms, "mean": line.mean_ms, "worst": line.worst_ms}[
            self.statistic
        ]


CLAIMS: Final = (
    Claim(
        150,
        150,
        "least",
        10_000,
        "Without randomness nobody asks before the others do, and what ends it on a real machine, its own unrest, is not simulated.",
    ),
    Claim(
        150,
        155,
        "median",
        287,
        "How many elections split at 5 ms hangs on how long a request for votes is under way: this is the number that the way "
        "there was fitted to.",
    ),
    Claim(
        150,
        200,
        "worst",
        513,
        "The worst of a thousand trials is a single trial, in which votes split again and again. Another thousand have another worst.",
    ),
    Claim(
        12,
        24,
        "mean",
        35,
        "Here the broadcast time is longer than the least timeout, so that it makes up half of the result; the paper gives it "
        "as roughly 15 ms.",
    ),
    Claim(
        12,
        24,
        "worst",
        152,
        "It is a single trial here as well.",
    ),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A number of the paper beside ours, and in a sentence how they differ."""

    line: str
    statistic: str
    theirs_ms: float
    ours_ms: float
    sentence: str


def compare(lines: Iterable[Line], broadcast_ms: float = BROADCAST_MS) -> Iterator[Difference]:
    """Yield every number that the paper states, with ours."""
    measured = {(line.low_ms, line.high_ms): line for line in lines}
    for claim in CLAIMS:
        line = measured[claim.low_ms, claim.high_ms]
        ours_ms = claim.ours_ms(line)
        yield Difference(
            line.name, claim.statistic, claim.theirs_ms, ours_ms, _sentence(claim, line, ours_ms, broadcast_ms)
        )


def _sentence(claim: Claim, line: Line, ours_ms: float, broadcast_ms: float) -> str:
    if claim.statistic == "least":
        share = 1 - line.below(claim.theirs_ms)
        agrees = f"{share:.0%} of our trials took longer than 10 s, {line.gave_up / len(line.times_ms):.0%} were given up at {GIVE_UP_S} s."
        return f"{agrees} {claim.reason}"
    ratio = ours_ms / claim.theirs_ms
    if abs(ratio - 1) <= CLOSE:
        words = f"Ours is {ours_ms:.0f} ms, within a tenth of theirs."
    else:
        words = f"Ours is {ours_ms:.0f} ms, {abs(ratio - 1):.0%} {'more' if ratio > 1 else 'less'} than theirs."
    if broadcast_ms != BROADCAST_MS:
        words += f" It was measured with a broadcast time of {broadcast_ms:g} ms, not the paper's {BROADCAST_MS:g} ms."
    elif claim.statistic == "worst" and len(line.times_ms) != TRIALS:
        words += f" Ours is the worst of {len(line.times_ms)} trials, theirs of {TRIALS}."
    return f"{words} {claim.reason}"


def row(line: Line) -> str:
    """Return a line of the figure as a row in Markdown."""
    values = (line.times_ms[0], line.median_ms, line.mean_ms, line.quantile_ms(0.99), line.worst_ms)
    shown = (f"{value:.0f}" if value < GIVE_UP_S * 1000 else f"over {GIVE_UP_S * 1000}" for value in values)
    return f"| {line.name} | {' | '.join(shown)} |"

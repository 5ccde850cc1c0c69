"""The tenures of one election, as far as anybody has told of them. Pure: times come in as seconds of the wall clock.

They come from three sides: facts of this process, pictures of the store, and the durable record. All speak of tokens, and a token
is one tenure for ever, so what they say is put together by token.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Self

from tenure.apps.history.told import UNKNOWN as LOST
from tenure.apps.history.told import VANISHED, TenureRecord
from tenure.errors import Reason

KEPT: Final = 30  # tenures of an election: what is older is for the history
# What ends a tenure of which nobody has said why. A place of its own, since it counts as no choice.
UNKNOWN: Final = ""


@dataclass(frozen=True, slots=True)
class Stint:
    """One tenure as people are shown it. What is not known is None."""

    token: int
    holder: str
    from_s: float | None
    to_s: float | None = None  # None: it goes on
    reason: str = UNKNOWN
    gap_s: float | None = None  # without a leader before it
    margin_min_s: float | None = None  # how close it came
    refused_count: int = 0  # of its writes, as its holder has put on record
    unrecorded: bool = False  # somebody led between the one before it and this of whom there is no record
    after: int | None = None  # whom by token the record has before it: it tells of the time since that one

    @classmethod
    def of(cls, record: TenureRecord) -> Self:
        """Return what is on record of a tenure. Where only bounds are known it is told as late, and as long, as it may have been."""
        end_s = record.ended_s
        if end_s is None and record.ended_between is not None:
            end_s = record.ended_between.most_s
        gap_s = None if record.gap is None else max(0.0, record.gap.most_s)
        reason = UNKNOWN if record.reason == LOST else record.reason or UNKNOWN
        margin_s = record.margin_min_s
        return cls(
            record.token,
            record.holder,
            record.began_s,
            end_s,
            reason,
            gap_s,
            margin_s,
            record.refused_count,
            record.unrecorded,
        )

    @property
    def said_why(self) -> bool:
        """Whether anybody has said why it ended. "Vanished" is what a reader concludes while nobody has: who left writes it down later."""
        return self.reason not in {UNKNOWN, VANISHED}

    @property
    def was_left_by_choice(self) -> bool:
        return self.reason == Reason.RESIGNED.value


class Timeline:
    """What is known of the tenures of one election, the newest ``KEPT`` of them."""

    __slots__ = ("_by_token", "version")

    def __init__(self) -> None:
        self._by_token: dict[int, Stint] = {}
        self.version = 0  # rises with every change

    def __iter__(self) -> Iterator[Stint]:
        """In their order, which is that of their tokens. Gaps that nobody told of are counted, each since the one before."""
        ordered = [self._by_token[token] for token in sorted(self._by_token)]
        for before, stint in pairwise([None, *ordered]):
            yield stint if before is None or stint is None else _after(before, stint)  # type: ignore[misc]

    def __contains__(self, token: int) -> bool:
        return token in self._by_token

    @property
    def last(self) -> Stint | None:
        """The newest, whether it is over or not."""
        return self._by_token[max(self._by_token)] if self._by_token else None

    def began(self, token: int, holder: str, from_s: float | None) -> None:
        """Note a tenure. Of one that is known only an unknown beginning is filled in: the first word was the closest one."""
        known = self._by_token.get(token)
        if known is None:
            self._put(Stint(token, holder, from_s))
        elif known.from_s is None and from_s is not None:
            self._put(replace(known, from_s=from_s))

    def ended(self, token: int, to_s: float, reason: str = UNKNOWN) -> None:
        """Note that a tenure is over. A reason, once told, stays; the earliest end does."""
        known = self._by_token.get(token)
        if known is not None:
            end_s = to_s if known.to_s is None else min(known.to_s, to_s)
            self._put(replace(known, to_s=end_s, reason=known.reason if known.said_why else reason or known.reason))

    def renewed(self, token: int, margin_s: float) -> None:
        """Note how close a renewal of a tenure was."""
        known = self._by_token.get(token)
        if known is not None and (known.margin_min_s is None or margin_s < known.margin_min_s):
            self._put(replace(known, margin_min_s=margin_s))

    def recorded(self, stints: Iterable[Stint]) -> None:
        """Take in what is on record. It knows of tenures that nobody here has seen; of others, what it does not say stays."""
        before: int | None = None
        for stint in stints:
            told, before = replace(stint, after=before), stint.token
            known = self._by_token.get(told.token)
            if known is None:
                self._put(told)
                continue
            margins_s = [margin_s for margin_s in (known.margin_min_s, told.margin_min_s) if margin_s is not None]
            # Its end was seen, and the record only says that it is over: by now, and for a reason that is not known.
            is_known_better = known.to_s is not None and (told.to_s is None or not told.said_why)
            self._put(
                replace(
                    told,
                    from_s=known.from_s if told.from_s is None else told.from_s,
                    to_s=known.to_s if is_known_better else told.to_s,
                    reason=told.reason if told.said_why or not known.said_why else known.reason,
                    margin_min_s=min(margins_s, default=None),
                )
            )

    def failovers(self) -> Iterator[Stint]:
        """Return the tenures that began because another had ended against its will."""
        for before, stint in pairwise(self):
            if stint.gap_s is not None and not before.was_left_by_choice:
                yield stint

    def begun_since(self, from_s: float) -> int:
        """Count the tenures that began since then and not because the one before was left by choice."""
        return sum(
            stint.from_s is not None and stint.from_s >= from_s and not before.was_left_by_choice
            for before, stint in pairwise(self)
        )

    def _put(self, stint: Stint) -> None:
        if self._by_token.get(stint.token) == stint:
            return
        self.version += 1
        self._by_token[stint.token] = stint
        while len(self._by_token) > KEPT:
            del self._by_token[min(self._by_token)]


def _after(before: Stint, stint: Stint) -> Stint:
    # The record speaks of the time since the last tenure that it has. 5 and 9 are on record, and 9 was told that 7 led: there is no
    # gap from 5 to 9. But if 7 was seen here to begin and to end, then there is one from 7 to 9.
    if stint.after is not None and before.token > stint.after:
        stint = replace(stint, gap_s=None, unrecorded=False)
    # Of one that was succeeded and that nobody has seen go, it is not known since when nobody led: it may still be at work. Nor is
    # that known where others led in between.
    if stint.gap_s is not None or stint.unrecorded or stint.from_s is None or before.to_s is None:
        return stint
    return replace(stint, gap_s=max(0.0, stint.from_s - before.to_s))

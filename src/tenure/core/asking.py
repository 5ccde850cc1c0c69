"""How a candidate asks the store: which requests are under way, when each was sent (rule 1), and when to ask next."""

from typing import Final

from tenure.timing import Timing

NEVER: Final = 2**64  # later than any clock can show
# The pause between unanswered attempts doubles up to a heartbeat, so sixteen of them span any ttl: whatever is forgotten
# was sent so long ago that its answer could not give office any more.
OPEN_ATTEMPTS_MAX: Final = 16


HASTY_WAKES_MAX: Final = 4


class Asking:
    """Claims and renewals of one candidate, one after the other. Bounded (rule 11)."""

    __slots__ = (
        "_earlier",
        "_hasty",
        "_is_open",
        "_timing",
        "_unheard",
        "attempt_max",
        "due_at",
        "failures",
        "latest",
        "latest_sent_at",
    )

    def __init__(self, timing: Timing, attempt_max: int = 0) -> None:
        self.due_at = NEVER  # when to ask next
        self.failures = 0  # in a row; an attempt of which nothing was heard is one
        self.latest = 0
        self.latest_sent_at = 0
        self._timing = timing
        self._unheard = False  # whether nothing at all was heard of the latest
        self._hasty = 0  # wake-ups in a row that came just after the claim before
        self.attempt_max = attempt_max  # the last number that was given
        self._is_open = False  # whether an answer to the latest would still be good
        self._earlier: tuple[tuple[int, int], ...] = ()  # such attempts before it, oldest first, and when each was sent

    def number(self) -> int:
        """Return a number that no attempt has had: for watches and seals, which need no date."""
        self.attempt_max += 1
        return self.attempt_max

    def send(self, now: int, chance: float) -> int:
        """Open an attempt and set when to ask again should it stay unanswered; the oldest of too many is forgotten."""
        if self._unheard:
            self.failures += 1
        self.open(self.number(), now)
        self._unheard = True
        self.due_at = now + self._timing.answer_within_ns(self.failures, chance)
        return self.latest

    def catch_up(self, due_at: int, asked_at: int | None, chance: float) -> None:
        """Be where one is whose last renewal was answered, and who has asked again since at ``asked_at`` if that is not None."""
        self.due_at = due_at
        if asked_at is not None:
            self.send(asked_at, chance)

    def retry(self, now: int, chance: float) -> None:
        """Count a failure and set when to ask again."""
        self.failures += 1
        self.due_at = now + self._timing.retry_after_ns(self.failures, chance)

    def succeeded(self) -> None:
        """Forget failures: what was asked for is there."""
        self.failures = self._hasty = 0

    def at_once(self, now: int) -> bool:
        """Say whether a wake-up may be followed at once. A few that come just after the last claim may (locks change
        hands quickly); then not, or a watch that returns early every time would become a loop.
        """
        if now - self.latest_sent_at >= self._timing.retry_after_ns(1, 1.0):
            self.succeeded()
        else:
            self._hasty += 1
        return self._hasty <= HASTY_WAKES_MAX

    def open(self, attempt: int, sent_at: int) -> None:
        """Wait for an answer to ``attempt``, which is the latest from now on; the oldest of too many is forgotten."""
        if self._is_open:
            self._earlier = (*self._earlier[2 - OPEN_ATTEMPTS_MAX :], (self.latest, self.latest_sent_at))
        self.latest, self.latest_sent_at, self._is_open = attempt, sent_at, True

    def answered(self, attempt: int) -> int | None:
        """Close an attempt; returns when it was sent, None if it is not open."""
        if attempt == self.latest:
            self._unheard = False
        return self._close(attempt)

    def _close(self, attempt: int) -> int | None:
        if self._is_open and attempt == self.latest:
            self._is_open = False
            return self.latest_sent_at
        for at, (number, sent_at) in enumerate(self._earlier):
            if number == attempt:
                self._earlier = self._earlier[:at] + self._earlier[at + 1 :]
                return sent_at
        return None

    def failed(self, attempt: int, *, definite: bool) -> bool:
        """Note a failure; returns whether it is news of the latest. Unknown: it stays open, its answer may come (rule 7)."""
        if definite:
            self._close(attempt)
        news = attempt == self.latest and self._unheard
        self._unheard = self._unheard and not news
        return news

    def stop(self) -> None:
        """Ask no more, and close all attempts: the bid that they belonged to is over."""
        self._earlier, self._is_open = (), False
        self._unheard = False
        self.due_at = NEVER

    def __contains__(self, attempt: int) -> bool:
        return any(number == attempt for number, _ in self.sent)

    def __len__(self) -> int:
        return len(self.sent)

    @property
    def sent(self) -> tuple[tuple[int, int], ...]:
        """The attempts that are open, oldest first, and when each was sent."""
        return (*self._earlier, (self.latest, self.latest_sent_at)) if self._is_open else self._earlier

    def __repr__(self) -> str:
        return f"<Asking {self.sent} due {self.due_at} failures {self.failures} hasty {self._hasty} unheard {self._unheard} {self.attempt_max}>"

"""The half of Raft that elects: when a server stands, whom it votes for, and when it goes over to a later term.

Section numbers are those of the extended paper (Ongaro and Ousterhout, 2014). Where a mistake is easily made, the rule is a
method of its own, so that a mutant (``breakages``) can break that rule and nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tenure.errors import ConfigError
from tenure.lab.faults import MS
from tenure.lab.raft.messages import (
    Became,
    Effect,
    LogEntry,
    RequestVote,
    Role,
    Save,
    Saved,
    Send,
    Vote,
)
from tenure.lab.world import NEVER

NOBODY: Final = -1


@dataclass(frozen=True, slots=True)
class Settings:
    """What one chooses about a cluster. Election timeouts are drawn between the two, both included."""

    timeout_min_ns: int = 150 * MS
    timeout_max_ns: int = 300 * MS
    heartbeat_ns: int = 50 * MS
    pre_vote: bool = False  # ask whether one would win before the term goes up (thesis, 9.6)
    check_quorum: bool = False  # a leader that hears of no majority for an election timeout steps down (thesis, 6.2)
    no_op: bool = False  # a new leader commits an empty entry at once, and with it what earlier terms left (8)
    batch: int = 8  # entries in one message at most: a server that was away catches up in several steps

    def __post_init__(self) -> None:
        if not 0 < self.timeout_min_ns <= self.timeout_max_ns:
            span = f"{self.timeout_min_ns / MS:g}-{self.timeout_max_ns / MS:g} ms"
            raise ConfigError("election timeout", span, "needs 0 < least <= greatest")
        if not 0 < self.heartbeat_ns < self.timeout_min_ns:
            rule = f"must lie between 0 and the least election timeout, {self.timeout_min_ns / MS:g} ms"
            raise ConfigError("heartbeat", f"{self.heartbeat_ns / MS:g} ms", rule)


class Voter:
    """The half of a server that elects, and what both halves keep."""

    __slots__ = (
        "_election_at",
        "_heard",
        "_heard_leader_at",
        "_heartbeat_at",
        "_lot",
        "_match",
        "_next",
        "_others",
        "_out",
        "_quorum_at",
        "_settings",
        "_spread_ns",
        "commit",
        "leader",
        "log",
        "majority",
        "number",
        "role",
        "term",
        "voted_for",
        "votes",
        "wake_at",
    )

    def __init__(  # noqa: PLR0913, PLR0917
        self, number: int, count: int, settings: Settings, lot: Callable[[], float], saved: Saved, now: int
    ) -> None:
        self.number, self.majority = number, count // 2 + 1
        self._settings, self._lot = settings, lot
        self._spread_ns = settings.timeout_max_ns - settings.timeout_min_ns + 1
        self._others = [other for other in range(count) if other != number]
        self.term, self.voted_for, self.log = saved.term, saved.voted_for, list(saved.log)
        self.role = Role.FOLLOWER
        self.leader = NOBODY
        self.commit = 0  # Not on disk: who leads says it again (5.3).
        self.votes: set[int] = set()
        self._heard: set[int] = set()
        self._next: list[int] = []
        self._match: list[int] = []
        self._out: list[Effect] = []
        self._heard_leader_at = now - settings.timeout_min_ns
        self._heartbeat_at = self._quorum_at = NEVER
        self._election_at = self.wake_at = now + self._timeout_ns()

    # Time.

    def _timeout_ns(self) -> int:
        """Draw an election timeout: that servers draw different ones is what ends split votes (5.2)."""
        return self._settings.timeout_min_ns + int(self._lot() * self._spread_ns)

    # Standing (5.2).

    def _stand(self, now: int) -> None:
        self._election_at = now + self._timeout_ns()
        if self._settings.pre_vote:
            self.role = Role.PRE_CANDIDATE
            self.leader = NOBODY
            self.votes = {self.number}
            self._out.append(Became(self.role, self.term, "has not heard of a leader"))
            self._ask(self.term + 1, pre=True)
            if self.majority == 1:
                self._campaign(now)
        else:
            self._campaign(now)

    def _campaign(self, now: int) -> None:
        self.term += 1
        self.voted_for = self.number
        self.role = Role.CANDIDATE
        self.leader = NOBODY
        self.votes = {self.number}
        self._out.append(Became(self.role, self.term, ""))
        self._save()
        self._ask(self.term, pre=False)
        if self.majority == 1:
            self._lead(now)

    def _ask(self, term: int, *, pre: bool) -> None:
        log = self.log
        request = RequestVote(term, self.number, len(log) - 1, log[-1].term, pre)
        self._out += [Send(other, request) for other in self._others]

    # Voting (5.2, 5.4.1). The three conditions are three methods.

    def _requested(self, request: RequestVote, now: int) -> None:
        if request.pre:
            self._pre_requested(request, now)
            return
        old = self.term, self.voted_for
        if request.term > self.term:
            self._adopt(request.term, now)
        granted = self._term_fits(request) and self._vote_is_free(request) and self._log_fits(request)
        if granted:
            self.voted_for = request.candidate
            self._election_at = now + self._timeout_ns()
        if (self.term, self.voted_for) != old:
            self._save()
        self._answer(request, granted)

    def _answer(self, request: RequestVote, granted: bool) -> None:
        self._out.append(Send(request.candidate, Vote(self.term, self.number, granted, pre=False)))

    def _term_fits(self, request: RequestVote) -> bool:
        """Condition 1: nobody is elected for a term that is over."""
        return request.term >= self.term

    def _vote_is_free(self, request: RequestVote) -> bool:
        """Condition 2: one vote a term; the same candidate may ask again, for the first answer may be lost."""
        return self.voted_for in (NOBODY, request.candidate)

    def _log_fits(self, request: RequestVote) -> bool:
        """Condition 3: the candidate's log is at least as new as this one: the later last term, or as many entries of it."""
        last_term = self.log[-1].term
        if request.last_term != last_term:
            return request.last_term > last_term
        return request.last_index >= len(self.log) - 1

    def _pre_requested(self, request: RequestVote, now: int) -> None:
        """Say whether it would vote so: not while a leader is heard of. Neither term nor vote nor timer changes."""
        leader_lives = self.role is Role.LEADER or now - self._heard_leader_at < self._settings.timeout_min_ns
        granted = request.term > self.term and not leader_lives and self._log_fits(request)
        answer = Vote(request.term if granted else self.term, self.number, granted, pre=True)
        self._out.append(Send(request.candidate, answer))

    def _voted(self, vote: Vote, now: int) -> None:
        if vote.pre and vote.granted:
            if self.role is Role.PRE_CANDIDATE and vote.term == self.term + 1:
                self.votes.add(vote.voter)
                if len(self.votes) >= self.majority:
                    self._campaign(now)
        elif vote.term > self.term:
            self._follow(vote.term, now, "hears of a later term")
        elif self._counts(vote):
            self._count(vote)
            if len(self.votes) >= self.majority:
                self._lead(now)

    def _counts(self, vote: Vote) -> bool:
        """Say whether this vote is for the present candidacy: answers of earlier ones may come late."""
        return vote.granted and self.role is Role.CANDIDATE and vote.term == self.term

    def _count(self, vote: Vote) -> None:
        """Count voters and not answers: an answer may come twice."""
        self.votes.add(vote.voter)

    # Changing sides.

    def _adopt(self, term: int, now: int) -> None:
        """Go over to a later term, in which nobody has this server's vote yet. The caller saves."""
        self.term, self.voted_for = term, NOBODY
        self.leader = NOBODY
        if self.role is not Role.FOLLOWER:
            self._resign(now, "hears of a later term")

    def _resign(self, now: int, why: str) -> None:
        if self.role is Role.LEADER:
            self._election_at = now + self._timeout_ns()
            self._heartbeat_at = self._quorum_at = NEVER
        self.role = Role.FOLLOWER
        self._out.append(Became(self.role, self.term, why))

    def _follow(self, term: int, now: int, why: str) -> None:
        if term > self.term:
            self._adopt(term, now)
            self._save()
        elif self.role is not Role.FOLLOWER:
            self._resign(now, why)

    # What both halves ask for.

    def _save(self, keep: int | None = None, entries: tuple[LogEntry, ...] = ()) -> None:
        self._out.append(Save(self.term, self.voted_for, len(self.log) if keep is None else keep, entries))

    def _lead(self, now: int) -> None:
        """Take office: the other half knows how."""
        raise NotImplementedError

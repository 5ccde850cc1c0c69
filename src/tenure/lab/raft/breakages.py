"""Raft with one rule broken each, for the checkers' own test. What each does wrong stands beside its name in ``mutants``."""

from tenure.lab.raft.machine import Server
from tenure.lab.raft.messages import (
    Append,
    Effect,
    Event,
    RequestVote,
    Role,
    Save,
    Saved,
    Send,
    Vote,
)
from tenure.lab.raft.node import RaftNode
from tenure.lab.raft.voting import NOBODY


class OldTermsWin(Server):
    """The comparison by itself is guarded twice, and to drop it alone breaks nothing: the answer has the voter's own term, at which a
    candidate of an earlier one steps down. So this one answers for the term that it was asked about. Condition 2 is of no use
    there: of terms that are over nobody knows any more whom they voted for, which is why there is condition 1.
    """

    __slots__ = ()

    def _requested(self, request: RequestVote, now: int) -> None:
        if request.pre or request.term >= self.term:
            super()._requested(request, now)
        elif self._log_fits(request):
            self._out.append(Send(request.candidate, Vote(request.term, self.number, granted=True, pre=False)))
        else:
            self._answer(request, granted=False)


class TwoVotes(Server):
    __slots__ = ()

    def _vote_is_free(self, request: RequestVote) -> bool:
        return True


class AnyLog(Server):
    __slots__ = ()

    def _log_fits(self, request: RequestVote) -> bool:
        return True


class LongerLog(Server):
    __slots__ = ()

    def _log_fits(self, request: RequestVote) -> bool:
        return request.last_index >= len(self.log) - 1


class CountsAnswers(Server):
    __slots__ = ()

    def _count(self, vote: Vote) -> None:
        self.votes.add(max(self.votes) + 100)


class CountsLateVotes(Server):
    __slots__ = ()

    def _counts(self, vote: Vote) -> bool:
        return vote.granted and self.role is Role.CANDIDATE


class CountsOldEntries(Server):
    __slots__ = ()

    def _may_commit(self, index: int) -> bool:
        return True


class SmallMajority(Server):
    __slots__ = ()

    def _quorum(self) -> int:
        return self.majority - 1


class AnyPredecessor(Server):
    __slots__ = ()

    def _agrees(self, message: Append) -> bool:
        return message.prev_index < len(self.log)


class CutsAlways(Server):
    __slots__ = ()

    def _store(self, message: Append) -> bool:
        at = message.prev_index + 1
        self.log[at:] = message.entries
        self._save(at, message.entries)
        return True


class CommitsOwnTail(Server):
    __slots__ = ()

    def _known(self, last: int) -> int:
        return len(self.log) - 1


class TidyLeader(Server):
    __slots__ = ()

    def _broadcast(self, now: int) -> None:
        if self.commit + 1 < len(self.log) and self.log[-1].term < self.term:
            del self.log[self.commit + 1 :]
            self._save(len(self.log))
            self._next = [min(index, len(self.log)) for index in self._next]
        super()._broadcast(now)


class SendsFirst(Server):
    __slots__ = ()

    def step(self, event: Event, now: int) -> list[Effect]:
        return sorted(super().step(event, now), key=lambda effect: isinstance(effect, Save))


class NoLots(Server):
    __slots__ = ()

    def _timeout_ns(self) -> int:
        return self._settings.timeout_min_ns


class DeafToHeartbeats(Server):
    __slots__ = ()

    def _fed(self, message: Append, now: int) -> None:
        election_at = self._election_at
        super()._fed(message, now)
        self._election_at = election_at


class ForgetsVote(RaftNode):
    __slots__ = ()

    def restored(self) -> Saved:
        return super().restored()._replace(voted_for=NOBODY)


class ForgetsTerm(RaftNode):
    __slots__ = ()

    def restored(self) -> Saved:
        saved = super().restored()
        return saved._replace(term=saved.log[-1].term, voted_for=NOBODY)


class ForgetsLastEntry(RaftNode):
    __slots__ = ()

    def restored(self) -> Saved:
        saved = super().restored()
        if len(saved.log) > 1:  # The disk said "written" and had it in its cache.
            self._save(Save(saved.term, saved.voted_for, len(saved.log) - 1, ()))
        return super().restored()

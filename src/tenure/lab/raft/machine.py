"""One server of Raft as a pure machine: an event and the time go in, effects come out. It performs nothing.

This half replicates: what a leader does with its office, what a follower takes, and when an entry is committed.
"""

from typing import Final

from tenure.lab.raft.messages import (
    Append,
    Appended,
    Apply,
    Became,
    Effect,
    Event,
    LogEntry,
    Propose,
    RequestVote,
    Role,
    Send,
    Tick,
    Vote,
)
from tenure.lab.raft.voting import Voter
from tenure.lab.world import NEVER

# Event → the method that handles it. By name, so that a mutant's is found.
_HANDLERS: Final[dict[type, str]] = {
    Tick: "_tick",
    Propose: "_proposed",
    RequestVote: "_requested",
    Vote: "_voted",
    Append: "_fed",
    Appended: "_heard_back",
}


class Server(Voter):
    """One server, number ``number`` of ``count``. ``lot`` draws from [0, 1); ``saved`` is what its disk has.

    ``step`` is all that changes it, and ``wake_at`` is when it wants a Tick.
    """

    __slots__ = ()

    def step(self, event: Event, now: int) -> list[Effect]:
        """Take one event at ``now`` on its own clock; return what is to be done, in this order."""
        out: list[Effect] = []
        self._out = out
        getattr(self, _HANDLERS[type(event)])(event, now)
        if self.role is Role.LEADER:
            self.wake_at = min(self._heartbeat_at, self._quorum_at)
        else:
            self.wake_at = self._election_at
        return out

    def _tick(self, _: Event, now: int) -> None:
        if self.role is not Role.LEADER:
            if now >= self._election_at:
                self._stand(now)
            return
        if now >= self._quorum_at:
            if len(self._heard) + 1 < self.majority:
                self._follow(self.term, now, "hears of no majority")
                return
            self._heard.clear()
            self._quorum_at = now + self._settings.timeout_min_ns
        if now >= self._heartbeat_at:
            self._broadcast(now)

    def _lead(self, now: int) -> None:
        count = len(self._others) + 1
        self.role, self.leader = Role.LEADER, self.number
        self._next = [len(self.log)] * count
        self._match = [0] * count
        self._heard.clear()
        self._quorum_at = now + self._settings.timeout_min_ns if self._settings.check_quorum else NEVER
        self._out.append(Became(self.role, self.term, f"with {len(self.votes)} votes"))
        if self._settings.no_op:
            self._take(LogEntry(self.term, "no-op"))
        self._broadcast(now)
        self._advance()

    # Replication (5.3).

    def _proposed(self, proposal: Propose, now: int) -> None:
        if self.role is Role.LEADER:
            self._take(LogEntry(self.term, proposal.value))
            self._broadcast(now)
            self._advance()

    def _take(self, entry: LogEntry) -> None:
        self.log.append(entry)
        self._save(len(self.log) - 1, (entry,))

    def _broadcast(self, now: int) -> None:
        self._heartbeat_at = now + self._settings.heartbeat_ns
        for other in self._others:
            self._feed(other)

    def _feed(self, other: int) -> None:
        """Send what this follower lacks, as far as is known, or a heartbeat."""
        prev = self._next[other] - 1
        entries = tuple(self.log[prev + 1 : prev + 1 + self._settings.batch])
        self._out.append(Send(other, Append(self.term, self.number, prev, self.log[prev].term, entries, self.commit)))

    def _fed(self, message: Append, now: int) -> None:
        if message.term < self.term:
            self._out.append(Send(message.leader, Appended(self.term, self.number, ok=False, upto=0)))
            return
        old = self.term
        if message.term > self.term:
            self._adopt(message.term, now)
        elif self.role is not Role.FOLLOWER:
            self._resign(now, "hears of this term's leader")
        self.leader = message.leader
        self._heard_leader_at = now
        self._election_at = now + self._timeout_ns()
        if not self._agrees(message):
            if self.term != old:
                self._save()
            upto = self._might_agree(message)
            self._out.append(Send(message.leader, Appended(self.term, self.number, ok=False, upto=upto)))
            return
        if not self._store(message) and self.term != old:
            self._save()
        last = message.prev_index + len(message.entries)
        self._commit_to(min(message.commit, self._known(last)))
        self._out.append(Send(message.leader, Appended(self.term, self.number, ok=True, upto=last)))

    def _agrees(self, message: Append) -> bool:
        """Log matching: take entries only if the one before them is the leader's."""
        return message.prev_index < len(self.log) and self.log[message.prev_index].term == message.prev_term

    def _might_agree(self, message: Append) -> int:
        """Return the last entry that may be the leader's: nothing of the term that contradicts is tried one by one (5.3)."""
        upto = min(message.prev_index, len(self.log)) - 1
        if message.prev_index < len(self.log):
            while upto and self.log[upto].term == self.log[message.prev_index].term:
                upto -= 1
        return upto

    def _known(self, last: int) -> int:
        """Return up to where the log is known to be the leader's. What stands after ``last`` may be of an older leader."""
        return last

    def _store(self, message: Append) -> bool:
        """Write what is new. Nothing is cut unless it contradicts: this message may be older than what is there."""
        log, at = self.log, message.prev_index + 1
        for number, entry in enumerate(message.entries):
            if at + number >= len(log) or log[at + number].term != entry.term:
                new = message.entries[number:]
                del log[at + number :]
                log += new
                self._save(at + number, new)
                return True
        return False

    def _heard_back(self, answer: Appended, now: int) -> None:
        if answer.term > self.term:
            self._follow(answer.term, now, "hears of a later term")
            return
        if self.role is not Role.LEADER or answer.term != self.term:
            return
        other = answer.follower
        self._heard.add(other)
        if answer.ok:
            # Only news is answered: an answer that came twice would otherwise be two conversations, and four, and eight.
            if answer.upto > self._match[other]:
                self._match[other] = answer.upto
                self._next[other] = max(self._next[other], answer.upto + 1)
                self._advance()
                if self._next[other] < len(self.log):
                    self._feed(other)
        elif (back := max(answer.upto, self._match[other]) + 1) < self._next[other]:  # An old refusal says nothing new.
            self._next[other] = back
            self._feed(other)

    # Commitment (5.3, 5.4.2).

    def _advance(self) -> None:
        """Commit what a majority has."""
        known = self._match.copy()
        known[self.number] = len(self.log) - 1
        known.sort()
        index = known[len(known) - self._quorum()]
        if index > self.commit and self._may_commit(index):
            self._commit_to(index)

    def _quorum(self) -> int:
        return self.majority

    def _may_commit(self, index: int) -> bool:
        """By counting, only entries of the present term are committed, and with them all before (figure 8 of the paper)."""
        return self.log[index].term == self.term

    def _commit_to(self, index: int) -> None:
        if index > self.commit:
            entries = tuple(self.log[self.commit + 1 : index + 1])
            self._out.append(Apply(self.commit + 1, entries, self.term))
            self.commit = index

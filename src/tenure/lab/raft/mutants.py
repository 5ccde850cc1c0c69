"""The mistakes that one can make in Raft, each with the promise that it breaks: the checkers' own test."""

from dataclasses import dataclass
from typing import Final

from tenure.errors import ConfigError
from tenure.lab.raft import breakages
from tenure.lab.raft.machine import Server
from tenure.lab.raft.node import RaftNode


@dataclass(frozen=True, slots=True)
class Mutant:
    """One breakage: its name, what it does wrong, and the promise whose checker must notice."""

    name: str
    mistake: str
    checker: str
    server: type[Server] = Server
    node: type[RaftNode] = RaftNode


MUTANTS: Final = {
    mutant.name: mutant
    for mutant in (
        Mutant(
            "old-terms-win",
            "condition 1 dropped: a candidate of a term that is over gets a vote of that term",
            "election-safety",
            breakages.OldTermsWin,
        ),
        Mutant(
            "two-votes",
            "condition 2 dropped: every candidate of a term gets the vote",
            "election-safety",
            breakages.TwoVotes,
        ),
        Mutant(
            "any-log",
            "condition 3 dropped: a candidate that lacks entries gets the vote",
            "leader-completeness",
            breakages.AnyLog,
        ),
        Mutant(
            "longer-log",
            "the longer log counts as newer, whatever its last term",
            "leader-completeness",
            breakages.LongerLog,
        ),
        Mutant(
            "forgets-vote",
            "the vote is not on disk: after a restart there is a second one in the same term",
            "election-safety",
            node=breakages.ForgetsVote,
        ),
        Mutant(
            "forgets-term",
            "neither is the term: after a restart it is that of the last entry",
            "election-safety",
            node=breakages.ForgetsTerm,
        ),
        Mutant(
            "sends-first",
            "answers leave before what they promise is on disk",
            "election-safety",
            breakages.SendsFirst,
        ),
        Mutant(
            "forgets-last-entry",
            "the disk has lost the last entry that it said it had written",
            "leader-completeness",
            node=breakages.ForgetsLastEntry,
        ),
        Mutant(
            "counts-answers",
            "a vote that arrives twice counts twice",
            "election-safety",
            breakages.CountsAnswers,
        ),
        Mutant(
            "counts-late-votes",
            "votes for an earlier candidacy count for the present one",
            "election-safety",
            breakages.CountsLateVotes,
        ),
        Mutant(
            "counts-old-entries",
            "an entry of an earlier term is committed by counting (figure 8 of the paper)",
            "leader-completeness",
            breakages.CountsOldEntries,
        ),
        Mutant(
            "small-majority",
            "an entry is committed by one server less than a majority",
            "leader-completeness",
            breakages.SmallMajority,
        ),
        Mutant(
            "any-predecessor",
            "entries are taken though the one before them is not the leader's",
            "log-matching",
            breakages.AnyPredecessor,
        ),
        Mutant(
            "cuts-always",
            "a follower cuts its log behind every message, also behind one that comes late",
            "leader-completeness",
            breakages.CutsAlways,
        ),
        Mutant(
            "commits-own-tail",
            "a follower commits what it has, though it is not known to be the leader's",
            "state-machine-safety",
            breakages.CommitsOwnTail,
        ),
        Mutant(
            "tidy-leader",
            "a new leader removes what earlier terms left uncommitted",
            "leader-append-only",
            breakages.TidyLeader,
        ),
        Mutant("no-lots", "all servers have the same election timeout", "progress", breakages.NoLots),
        Mutant(
            "deaf-to-heartbeats",
            "a follower stands for election though its leader speaks",
            "leader-kept",
            breakages.DeafToHeartbeats,
        ),
    )
}


def find(name: str) -> Mutant:
    """Return the mutant of that name; an unknown one is refused with the list."""
    if name not in MUTANTS:
        raise ConfigError("mutant", name, f"must be one of {', '.join(MUTANTS)}")
    return MUTANTS[name]

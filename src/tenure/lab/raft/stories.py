"""The scenarios of ``tenure lab raft --story``: each shows one thing, and a test holds it to that."""

from typing import Final

from tenure.errors import ConfigError
from tenure.lab.faults import MS
from tenure.lab.raft.stage import Stage, Story
from tenure.lab.raft.voting import Settings


def _normal(stage: Stage) -> None:
    stage.lots("A", 0.0)
    stage.command(250, "A", "x=1")


def _split(stage: Stage) -> None:
    stage.crash(1, "E")
    stage.say(2, "E is down: three of the four that are left are a majority of five")
    stage.lots("A", 0.0, 0.1)
    stage.lots("B", 0.0, 0.6)


def _partition(stage: Stage) -> None:
    stage.lots("A", 0.0)
    stage.command(220, "A", "x=1")
    stage.cut(300, "AB", 700)
    stage.at(240, stage.lots, "C", 0.1)
    stage.say(330, "A does not know that it has been cut off, and takes commands that it can commit no more")
    stage.command(340, "A", "x=old")
    stage.command(560, "C", "x=new")
    stage.say(700, "whole again: one message of the later term is enough")


def _check_quorum(stage: Stage) -> None:
    stage.lots("A", 0.0)
    stage.cut(300, "AB", 900)
    stage.at(240, stage.lots, "C", 0.1)
    stage.say(301, "with check-quorum a leader that hears of no majority gives up by itself")


def _slow(stage: Stage) -> None:
    stage.lots("A", 0.0)
    stage.pause(200, "E", 600)
    for number in range(1, 5):
        stage.command(180 + 50 * number, "A", f"x={number}")
    stage.say(450, "four of five have everything: nobody waits for E")


def _after_commit(stage: Stage) -> None:
    stage.lots("A", 0.0)
    stage.cut(210, "DE", 300)
    stage.command(220, "A", "x=1")
    stage.crash(234, "A")
    stage.say(235, "A had it committed, by B and C, and told nobody so. D and E have not even heard of it")
    stage.at(200, stage.lots, "D", 0.0)
    stage.at(200, stage.lots, "B", 0.4)
    stage.command(700, "B", "x=2")


def _overwritten(stage: Stage) -> None:
    stage.lots("A", 0.0)
    stage.command(200, "A", "x=1")
    stage.cut(240, "A", 300)
    stage.command(250, "A", "x=lost")
    stage.command(255, "A", "y=lost")
    stage.crash(290, "A")
    stage.at(230, stage.lots, "B", 0.2)
    stage.command(600, "B", "x=2")
    stage.start(650, "A", 0.9)
    stage.say(649, "A comes back with two entries on its disk that nobody else has seen")


def _rejoin(stage: Stage) -> None:
    stage.lots("A", 0.0)
    stage.cut(200, "E", 1000)
    stage.at(190, stage.lots, "E", 0.0)
    stage.command(700, "A", "x=1")
    stage.say(999, "E comes back")


def _figure_8(stage: Stage) -> None:
    stage.given(A="12", B="12", C="1", D="1", E="13")
    stage.say(0.5, "A has led term 2 and told B alone of its entry; E has led term 3 and told nobody; both died (a, b)")
    for node in stage.nodes:
        node.disk["term"] = 3
    stage.nodes[4].disk.update(term=4, voted_for=4)
    stage.say(0.6, "E stood for term 4 as well, and died before it had asked anybody")
    stage.crash(0.2, "E")
    stage.lots("A", 0.0)
    stage.say(200, "A leads term 4, and its old entry of term 2 reaches a majority (c): is it committed?")
    stage.crash(230, "A")
    stage.start(240, "E", 0.0)
    stage.say(
        241, "not yet, and rightly so: E is elected by the others, whose logs end with term 2, and overwrites it (d)"
    )
    stage.start(600, "A", 0.9)
    stage.command(650, "E", "x=5")
    stage.say(651, "only an entry of the leader's own term commits, and what stands before it with it")


_QUICK: Final = Settings(150 * MS, 300 * MS, 40 * MS)

STORIES: Final = {
    story.name: story
    for story in (
        Story(
            "normal-election",
            "A normal election",
            "Who times out first asks for votes, has a majority two messages later, and keeps it by heartbeats.",
            _normal,
            _QUICK,
            400,
        ),
        Story(
            "split-vote",
            "A split vote",
            "Two who stand at once share the votes and nobody wins; that they draw new timeouts is what ends it.",
            _split,
            _QUICK,
            450,
        ),
        Story(
            "partition",
            "A partition with the old leader in the minority",
            "For a while two believe to lead, of different terms; only the one with a majority commits anything.",
            _partition,
            _QUICK,
            850,
        ),
        Story(
            "check-quorum",
            "The same with check-quorum",
            "A leader that cannot reach a majority says so itself, instead of taking commands for nothing.",
            _check_quorum,
            Settings(150 * MS, 300 * MS, 40 * MS, check_quorum=True),
            700,
        ),
        Story(
            "slow-follower",
            "A slow follower",
            "A majority commits without it; when it is back, the leader's heartbeats find out what it lacks.",
            _slow,
            Settings(150 * MS, 300 * MS, 40 * MS, batch=2),
            720,
        ),
        Story(
            "crash-after-commit",
            "The leader dies after it has committed",
            "Who lacks a committed entry is refused by a majority, so the next leader has it.",
            _after_commit,
            _QUICK,
            850,
        ),
        Story(
            "overwritten",
            "An old leader's uncommitted entries",
            "What no majority has seen was never promised to anybody: it is overwritten.",
            _overwritten,
            _QUICK,
            800,
        ),
        Story(
            "disruption",
            "A server that comes back with a late term",
            "Cut off, it stands again and again and wins nothing but a late term, by which it then deposes a healthy leader.",
            _rejoin,
            _QUICK,
            1500,
        ),
        Story(
            "pre-vote",
            "The same with pre-vote",
            "It asks before it raises its term. Nobody who hears a leader would vote for it, so nothing happens.",
            _rejoin,
            Settings(150 * MS, 300 * MS, 40 * MS, pre_vote=True),
            1500,
        ),
        Story(
            "figure-8",
            "Figure 8 of the paper: a majority is not enough",
            "An entry of an earlier term that a majority has may still be overwritten: it must not count as committed.",
            _figure_8,
            _QUICK,
            800,
        ),
    )
}


def find(name: str) -> Story:
    """Return the story of that name; an unknown one is refused with the list."""
    if name not in STORIES:
        raise ConfigError("--story", name, f"must be one of {', '.join(STORIES)}")
    return STORIES[name]

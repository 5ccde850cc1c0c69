"""The Raft machine by itself: an event and the time go in, and what comes out is what the paper says."""

from typing import Any

import pytest

from tenure.errors import ConfigError
from tenure.lab.faults import MS
from tenure.lab.raft.machine import Server
from tenure.lab.raft.messages import (
    Append,
    Appended,
    Apply,
    Became,
    Effect,
    LogEntry,
    Propose,
    RequestVote,
    Role,
    Save,
    Saved,
    Send,
    Tick,
    Vote,
)
from tenure.lab.raft.voting import NOBODY, Settings

T = 150 * MS
START = LogEntry(0, "")


def server(saved: Saved | None = None, count: int = 5, **settings: Any) -> Server:
    return Server(0, count, Settings(**settings), lambda: 0.0, saved or Saved(), 0)


def log_of(*terms: int) -> tuple[LogEntry, ...]:
    return (START, *(LogEntry(term, f"{term}.{index}") for index, term in enumerate(terms, 1)))


def sent(effects: list[Effect]) -> list[Any]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def leader(saved: Saved | None = None, **settings: Any) -> Server:
    one = server(saved, **settings)
    one.step(Tick(), T)
    for voter in (1, 2):
        one.step(Vote(one.term, voter, granted=True, pre=False), T + MS)
    assert one.role is Role.LEADER
    return one


def test_a_follower_that_hears_nobody_stands_for_the_next_term_and_saves_its_own_vote_first() -> None:
    one = server()
    assert one.step(Tick(), T - 1) == []
    effects = one.step(Tick(), T)
    assert effects[:2] == [Became(Role.CANDIDATE, 1, ""), Save(1, 0, 1, ())]
    assert sent(effects) == [RequestVote(1, 0, 0, 0, pre=False)] * 4


def test_a_majority_of_different_voters_elects() -> None:
    one = server()
    one.step(Tick(), T)
    vote = Vote(1, 1, granted=True, pre=False)
    assert one.step(vote, T) == one.step(vote, T) == []
    effects = one.step(vote._replace(voter=2), T)
    assert effects[0] == Became(Role.LEADER, 1, "with 3 votes")
    assert all(isinstance(message, Append) for message in sent(effects))


@pytest.mark.parametrize(
    ("request_", "granted"),
    [
        (RequestVote(3, 1, 2, 2, pre=False), True),
        (RequestVote(1, 1, 2, 2, pre=False), False),  # condition 1: its term is over
        (RequestVote(2, 1, 2, 2, pre=False), False),  # condition 2: somebody else has the vote of this term
        (RequestVote(2, 3, 2, 2, pre=False), True),  # who has it may ask again
        (RequestVote(3, 1, 1, 2, pre=False), False),  # condition 3: its log is shorter
        (RequestVote(3, 1, 9, 1, pre=False), False),  # or longer, with an older end
        (RequestVote(3, 1, 1, 3, pre=False), True),  # or shorter, with a newer end
    ],
)
def test_a_vote_has_three_conditions(request_: RequestVote, granted: bool) -> None:
    one = server(Saved(2, 3, log_of(1, 2)))
    effects = one.step(request_, MS)
    assert [message.granted for message in sent(effects)] == [granted]
    assert one.term == max(2, request_.term)


def test_a_vote_is_on_disk_before_it_is_sent_and_a_second_one_is_refused_after_a_restart() -> None:
    save, answer = server().step(RequestVote(1, 1, 0, 0, pre=False), MS)
    assert save == Save(1, 1, 1, ())
    assert answer == Send(1, Vote(1, 0, granted=True, pre=False))
    again = server(Saved(1, 1))
    assert sent(again.step(RequestVote(1, 2, 0, 0, pre=False), MS)) == [Vote(1, 0, granted=False, pre=False)]


def test_a_vote_that_is_given_puts_the_own_candidacy_off_and_one_that_is_refused_does_not() -> None:
    giving, refusing = server(), server(Saved(0, NOBODY, log_of(0, 0)))
    giving.step(RequestVote(1, 1, 0, 0, pre=False), 100 * MS)
    refusing.step(RequestVote(1, 1, 0, 0, pre=False), 100 * MS)
    assert (giving.wake_at, refusing.wake_at) == (100 * MS + T, T)


def test_a_later_term_deposes_a_leader_and_is_saved() -> None:
    one = leader()
    effects = one.step(Appended(7, 3, ok=False, upto=0), T + 9)
    assert effects == [Became(Role.FOLLOWER, 7, "hears of a later term"), Save(7, NOBODY, 1, ())]
    assert one.wake_at == 2 * T + 9


def test_a_vote_of_a_later_term_is_counted_by_nobody_who_asked_for_an_earlier_one() -> None:
    """Condition 1 is guarded twice: a voter that forgets to compare the terms still answers with its own."""
    one = server()
    one.step(Tick(), T)
    for voter in (1, 2, 3):
        one.step(Vote(4, voter, granted=True, pre=False), T + 1)
    assert (one.role, one.term) == (Role.FOLLOWER, 4)


def test_entries_are_taken_only_behind_an_entry_that_agrees_and_are_saved_before_the_answer() -> None:
    one = server(Saved(2, NOBODY, log_of(1, 2, 2)))
    refused = one.step(Append(3, 1, 3, 3, (LogEntry(3, "x"),), 0), MS)
    assert sent(refused) == [Appended(3, 0, ok=False, upto=1)]  # The whole of term 2 may be wrong.
    taken = one.step(Append(3, 1, 1, 1, (LogEntry(3, "x"),), 2), MS)
    assert taken == [
        Save(3, NOBODY, 2, (LogEntry(3, "x"),)),
        Apply(1, (LogEntry(1, "1.1"), LogEntry(3, "x")), 3),
        Send(1, Appended(3, 0, ok=True, upto=2)),
    ]


def test_a_message_that_comes_late_cuts_nothing() -> None:
    one = server(Saved(1, NOBODY, log_of(1, 1, 1)))
    effects = one.step(Append(1, 1, 0, 0, log_of(1)[1:], 0), MS)
    assert effects == [Send(1, Appended(1, 0, ok=True, upto=1))]
    assert len(one.log) == 4


def test_a_follower_commits_no_further_than_what_it_knows_to_be_the_leaders() -> None:
    one = server(Saved(1, NOBODY, log_of(1, 1, 1)))
    effects = one.step(Append(2, 1, 1, 1, (), 3), MS)
    assert [effect.entries for effect in effects if isinstance(effect, Apply)] == [log_of(1)[1:]]


def test_only_an_entry_of_the_own_term_is_committed_by_counting_and_earlier_ones_with_it() -> None:
    one = leader(Saved(1, NOBODY, log_of(1)))
    for follower in (1, 2, 3, 4):
        assert not one.step(Appended(2, follower, ok=True, upto=1), T)
    one.step(Propose("x"), T)
    assert not any(isinstance(effect, Apply) for effect in one.step(Appended(2, 1, ok=True, upto=2), T))
    effects = one.step(Appended(2, 2, ok=True, upto=2), T)
    assert effects == [Apply(1, (LogEntry(1, "1.1"), LogEntry(2, "x")), 2)]


def test_pre_vote_asks_first_and_changes_nobodys_term() -> None:
    one = server(pre_vote=True)
    effects = one.step(Tick(), T)
    assert sent(effects) == [RequestVote(1, 0, 0, 0, pre=True)] * 4
    assert (one.term, one.voted_for) == (0, NOBODY)
    one.step(Vote(1, 1, granted=True, pre=True), T)
    effects = one.step(Vote(1, 2, granted=True, pre=True), T)
    assert (one.role, one.term) == (Role.CANDIDATE, 1)
    assert Save(1, 0, 1, ()) in effects


def test_who_hears_a_leader_grants_no_pre_vote_and_who_does_not_does() -> None:
    one = server(pre_vote=True)
    one.step(Append(1, 1, 0, 0, (), 0), MS)
    request = RequestVote(5, 2, 0, 0, pre=True)
    assert one.step(request, 2 * MS) == [Send(2, Vote(1, 0, granted=False, pre=True))]
    assert one.step(request, MS + T) == [Send(2, Vote(5, 0, granted=True, pre=True))]
    assert (one.term, one.voted_for) == (1, NOBODY)


def test_with_check_quorum_a_leader_that_hears_of_no_majority_steps_down() -> None:
    one, other = leader(check_quorum=True), leader()
    one.step(Appended(1, 1, ok=True, upto=0), T + 2 * MS)
    for machine in (one, other):
        machine.step(Tick(), 3 * T)
    assert (one.role, other.role) == (Role.FOLLOWER, Role.LEADER)


def test_a_single_server_elects_itself() -> None:
    one = server(count=1)
    one.step(Tick(), T)
    assert one.role is Role.LEADER
    assert Apply(1, (LogEntry(1, "x"),), 1) in one.step(Propose("x"), T)


def test_a_new_leader_may_commit_what_earlier_terms_left_by_an_empty_entry() -> None:
    one = leader(Saved(1, NOBODY, log_of(1)), no_op=True)
    assert one.log[-1] == LogEntry(2, "no-op")


def test_who_does_not_lead_takes_no_command() -> None:
    assert server().step(Propose("x"), MS) == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"timeout_min_ns": 0}, "election timeout"),
        ({"timeout_min_ns": 400 * MS}, "400-300 ms"),
        ({"heartbeat_ns": 150 * MS}, "heartbeat"),
        ({"heartbeat_ns": 0}, "heartbeat"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Settings(**settings)

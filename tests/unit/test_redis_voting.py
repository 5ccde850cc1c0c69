"""What the answers of several servers come to."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.model import TOKEN_MAX, Bid, Holder
from tenure.stores.redis.records import Held
from tenure.stores.redis.voting import Ballot, Outcome, Vote, free_in_s, is_firm, majority_of, settled

BID = Bid("x", Holder("bob", 1, "b"), 1, 10**9)


def other(name: str = "ada", token: int = 7) -> Held:
    return Held(Holder(name, 1, name), 1, token, "")


@pytest.mark.parametrize(
    ("votes", "others", "outcome"),
    [
        (3, [], Outcome.WON),
        (3, ["ada", "ada"], Outcome.WON),
        (2, ["ada", "ada", "ada"], Outcome.TAKEN),
        (2, ["ada", "ada"], Outcome.TAKEN),  # The silent one may be hers.
        (2, ["ada", "eve", "eve"], Outcome.SPLIT),
        (2, ["ada", "eve"], Outcome.SPLIT),
        (2, [], Outcome.UNHEARD),
        (1, ["ada"], Outcome.UNHEARD),
        (0, ["ada", "ada"], Outcome.UNHEARD),
    ],
)
def test_a_majority_wins_and_silence_is_counted_for_nobody(votes: int, others: list[str], outcome: Outcome) -> None:
    assert Ballot(5, [Vote(0, 0)] * votes, [other(name) for name in others]).outcome() is outcome


def test_in_a_split_one_side_keeps_its_votes_and_the_others_yield() -> None:
    assert Ballot(5, [Vote(0, 0)] * 2, [other("ada"), other("eve")]).keeps(BID)
    assert not Ballot(5, [Vote(0, 0)], [other("ada"), other("ada"), other("eve")]).keeps(BID)
    assert not Ballot(5, [Vote(0, 0)] * 2, [other("ada"), other("ada")]).keeps(BID)  # "ada" comes before "bob".
    assert Ballot(5, [Vote(0, 0)] * 2, [other("eve"), other("eve")]).keeps(BID)


def test_the_token_of_a_majority_is_kept_and_any_other_is_above_all_that_are_known() -> None:
    assert Ballot(5, [Vote(9, 9), Vote(9, 9), Vote(9, 9), Vote(40, 0)], []).token(0) == 9
    assert Ballot(5, [Vote(9, 9), Vote(9, 9), Vote(4, 0)], []).token(0) == 10
    assert Ballot(5, [Vote(0, 0)] * 3, []).token(6) == 7
    assert Ballot(5, [Vote(TOKEN_MAX, 0)] * 3, []).token(0) == 0


@given(st.lists(st.sets(st.integers(0, 4), min_size=3), min_size=2, max_size=30))
def test_tokens_that_are_written_to_a_majority_rise_whatever_majorities_there_are(rounds: list[set[int]]) -> None:
    counters, tokens = [0] * 5, []
    for majority in rounds:
        tokens.append(Ballot(5, [Vote(counters[node], 0) for node in majority], []).token(0))
        for node in majority:
            counters[node] = max(counters[node], tokens[-1])
    assert tokens == sorted(set(tokens))


def test_in_office_is_who_has_a_majority_under_one_token() -> None:
    assert Ballot(5, [], [other()] * 3).incumbent() == other()
    assert Ballot(5, [], [other(token=7)] * 2 + [other(token=8)]).incumbent() is None
    assert Ballot(5, [], [other(token=0)] * 5).incumbent() is None


@pytest.mark.parametrize(
    ("answers", "left_s"),
    [
        ([], 0.0),
        ([(b"", 0.0)] * 5, 0.0),
        ([(b"a", 1.0), (b"a", 2.0), (b"a", 3.0), (b"", 0.0), (b"", 0.0)], 1.0),
        ([(b"a", float(end)) for end in range(1, 6)], 3.0),
        ([(b"a", 1.0), (b"a", 2.0), (b"", 0.0), (b"", 0.0)], 1.0),
        ([(b"a", 1.0), (b"a", 2.0), (b"b", 3.0), (b"b", 3.0), (b"", 0.0)], 0.0),
        ([(b"a", inf)] * 5, inf),
    ],
)
def test_an_office_is_free_once_nobody_can_have_a_majority(answers: list[tuple[bytes, float]], left_s: float) -> None:
    assert free_in_s(5, answers) == left_s


def test_a_majority_says_yes_or_can_no_longer_do_so() -> None:
    assert [majority_of(count) for count in (3, 5, 7)] == [2, 3, 4]
    assert settled(5, [1, 2, 1]) is True
    assert settled(5, [0, 0, 0, 1]) is False
    assert settled(5, [1, 1, 0, 0]) is None


@pytest.mark.parametrize(
    ("answers", "firm"),
    [
        ([], False),
        ([b"a", b"a"], False),
        ([b"a", b"a", b"a"], True),
        ([b"", b"", b""], True),
        ([b"a", b"", b""], False),  # The two who are silent may be hers.
        ([b"a", b"", b"", b""], True),
        ([b"a", b"b", b"a", b"b"], False),
        ([b"a", b"b", b"a", b"b", b""], True),
    ],
)
def test_silent_servers_are_waited_for_only_where_they_matter(answers: list[bytes], firm: bool) -> None:
    assert is_firm(5, answers) is firm

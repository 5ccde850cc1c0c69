"""Facts that the recorder was too slow for: what may have happened meanwhile is told as lost, and nothing else is put down wrong."""

import threading

import anyio
import pytest

import tenure
from tenure.apps.history import keep, read_history
from tenure.apps.history.notes import Notes
from tenure.apps.history.records import Dropped, Record
from tenure.errors import Reason
from tenure.facts import kinds as what
from tenure.facts.kinds import Fact
from tenure.facts.subscribing import subscriptions
from tenure.model import Bid, Token
from tenure.stores.memory import MemoryStore
from tests.history.making import ADA, BOB, STORE, T0_S, fact, tokens

PATIENCE_S = 30.0
FACTS_MAX = 100_000  # that wait for a recorder


def hear(notes: Notes, *facts: Fact) -> list[Record]:
    return [record for one in facts for _, record in notes.hear(one)]


def elected(token: int, at_s: float, election: str = "jobs", holder: tenure.Holder = ADA) -> Fact:
    return fact(what.Elected(Token(token), 0), at_s, election, holder)


def left(token: int, at_s: float, election: str = "jobs", holder: tenure.Holder = ADA) -> Fact:
    return fact(what.Left(Token(token), Reason.RESIGNED), at_s, election, holder)


def refused(token: int) -> Fact:
    return fact(what.RefusedStale("Table", token, token + 1, "here/jobs"), 900, election="", holder=None, store="")


def renewed(serial: int, at_s: float, margin_s: int = 1) -> Fact:
    bid = Bid("jobs", ADA, serial, 8 * 10**9)
    return fact(what.Renewed((bid,), margin_s * 10**9, 1), at_s, election="", holder=None)


def missed(notes: Notes, from_s: float, to_s: float) -> None:
    notes.missed(int(from_s * 1e9), int(to_s * 1e9))


class Blocking:
    """The elections that are asked for, of which somebody is slow to say whether one is among them."""

    def __init__(self) -> None:
        self.is_asked, self.may_answer = threading.Event(), threading.Event()

    def __contains__(self, election: object) -> bool:
        if election == "slow":
            self.is_asked.set()
            self.may_answer.wait(PATIENCE_S)
        return election == "jobs"


def test_between_two_tenures_of_which_more_happened_than_could_be_heard_no_gap_is_told() -> None:
    store, elections, holder = MemoryStore(), Blocking(), tenure.Holder.fresh()

    def lead(token: int) -> None:
        for one in (what.Elected(Token(token), 0), what.Left(Token(token), Reason.RESIGNED)):
            tenure.facts.publish(one, store.address, "jobs", holder)

    def hear_all() -> bool:
        return all(one.wait_until_told(PATIENCE_S) for one in subscriptions())

    with keep(store, elections=elections) as recorder:
        lead(1)
        assert hear_all()
        tenure.facts.publish(what.Stood(1), store.address, "slow", holder)
        assert elections.is_asked.wait(PATIENCE_S)
        for _ in range(FACTS_MAX):
            tenure.facts.publish(what.Stood(1), "elsewhere", "jobs", holder)
        for token in range(2, 6):
            lead(token)
        assert recorder.dropped_count == 8
        elections.may_answer.set()
        assert hear_all()
        for token in (6, 7):
            lead(token)
    tenures = anyio.run(read_history, store, "jobs")
    assert tokens(tenures) == [1, 6, 7]
    assert [(one.gap is None, one.unrecorded) for one in tenures[1:]] == [(True, True), (False, False)]


@pytest.mark.parametrize(
    ("hole_s", "dropped"),
    [
        ((12, 15), Dropped(2, 8)),
        ((5, 15), Dropped(2, 8)),  # Whoever led after the first may have come and gone unheard of.
        ((15, 25), Dropped(2, 8)),
        ((5, 9), None),  # The end of the first was heard after that,
        ((21, 25), None),  # and all that came before the second, though it was heard later.
    ],
)
def test_what_may_be_lost_is_said_by_the_next_tenure_if_facts_were_missed_between_the_two(
    hole_s: tuple[int, int], dropped: Dropped | None
) -> None:
    notes = Notes(STORE)
    hear(notes, elected(1, 1), left(1, 10))
    missed(notes, *hole_s)
    second, ended = hear(notes, elected(9, 20, holder=BOB), left(9, 30, holder=BOB))
    assert second.dropped == ended.dropped == dropped


def test_of_one_whose_end_was_missed_it_is_said_that_it_may_be_lost_and_of_other_elections_nothing() -> None:
    notes = Notes(STORE)
    hear(notes, elected(1, 1), elected(3, 2, "mail"), left(3, 9, "mail"), elected(7, 5, "post"), left(7, 6, "post"))
    missed(notes, 7, 8)
    assert [one.dropped for one in hear(notes, elected(2, 10), elected(5, 11, "mail"))] == [Dropped(1, 1), None]
    assert [one.dropped for one in hear(notes, elected(8, 12, "post"))] == [None]  # Between 7 and 8 there is none.
    assert [one.dropped for one in hear(notes, elected(5, 13, "new"))] == [Dropped(1, 4)]


def test_however_often_facts_were_missed_none_of_these_times_is_forgotten() -> None:
    notes = Notes(STORE)
    hear(notes, *(one for n in range(100) for one in (elected(1, 10 * n, f"e{n}"), left(1, 10 * n + 1, f"e{n}"))))
    for number in range(100):
        missed(notes, 10 * number + 2, 10 * number + 3)
    (last,) = hear(notes, elected(3, 993.5, "e99", BOB))
    assert last.dropped == Dropped(2, 2)
    assert all(hear(notes, elected(3, 1000 + n, f"e{n}"))[0].dropped == Dropped(2, 2) for n in range(99))


def test_after_an_end_that_was_missed_a_refused_write_is_of_the_tenure_whose_token_it_was() -> None:
    notes = Notes(STORE, identity="here")
    hear(notes, elected(1, 1), elected(2, 5))
    assert [(one.token, one.refused_count) for one in hear(notes, refused(1))] == [(1, 1)]
    hear(notes, left(2, 7))
    assert [(one.token, one.refused_count) for one in hear(notes, refused(1), refused(2))] == [(1, 2), (2, 1)]


def test_tenures_whose_ends_were_missed_do_not_count_as_ones_that_last() -> None:
    """Of more than a hundred that last none would be refreshed."""
    notes = Notes(STORE)
    hear(notes, *(elected(token, token) for token in range(1, 202)), renewed(1, 202))
    assert [one.token for one in hear(notes, renewed(1, 300))] == [201]


def test_a_renewal_of_another_bid_is_no_sign_of_life_of_a_tenure_whose_end_was_missed() -> None:
    notes = Notes(STORE)
    hear(notes, elected(1, 1), renewed(1, 5, margin_s=4), renewed(2, 500, margin_s=1), renewed(2, 600, margin_s=1))
    (one,) = [record for _, record in notes.unwritten()]
    assert (one.token, one.seen_s, one.margin_min_s) == (1, T0_S + 5, 4.0)


def test_who_leaves_another_tenure_than_the_one_that_was_heard_of_has_left_both() -> None:
    notes = Notes(STORE)
    hear(notes, elected(1, 1), left(2, 9), renewed(1, 10))
    assert list(notes.unwritten()) == []

"""What a recorder makes of facts: a record when a tenure begins and when it ends, and none because of a renewal."""

from collections.abc import Iterable

from tenure.apps.history.notes import Notes
from tenure.apps.history.records import Record, Sighting
from tenure.errors import Reason
from tenure.facts import kinds as what
from tenure.facts.kinds import Fact
from tenure.model import Bid, Incumbent, Token
from tests.history.making import ADA, BOB, STORE, T0_S, fact

TOKEN, NEXT = Token(7), Token(8)


def hear(notes: Notes, facts: Iterable[Fact]) -> list[tuple[str, Record]]:
    return [told for one in facts for told in notes.hear(one)]


def renewed(margin_s: float, at_s: float, advertise: str = "") -> Fact:
    bid = Bid("jobs", ADA, 1, 8 * 10**9, advertise)
    return fact(what.Renewed((bid,), round(margin_s * 1e9), 1), at_s, election="", holder=None)


def test_a_tenure_is_written_when_it_begins_and_when_it_ends_with_the_least_margin_of_all() -> None:
    notes = Notes(STORE)
    begun, ended = hear(
        notes,
        [
            fact(what.Stood(8 * 10**9), 0),
            fact(what.Elected(TOKEN, 0), 1),
            *(renewed(margin_s, 2 + margin_s, "http://h1") for margin_s in (5.5, 1.25, 5.9)),
            fact(what.Left(TOKEN, Reason.RESIGNED), 20),
        ],
    )
    assert begun == ("jobs", Record(7, str(ADA), T0_S + 1, ttl_s=8.0))
    assert ended[1].began_s == T0_S + 1
    assert (ended[1].ended_s, ended[1].reason) == (T0_S + 20, "resigned")
    assert (ended[1].margin_min_s, ended[1].seen_s, ended[1].advertised) == (1.25, T0_S + 7.9, "http://h1")


def test_how_long_it_took_is_measured_on_the_boot_clock_from_the_wake_up() -> None:
    notes, ada_leads = Notes(STORE), what.Waiting(Incumbent("jobs", BOB, TOKEN))
    (begun,) = hear(
        notes,
        [
            fact(what.Stood(8 * 10**9), 0),
            fact(ada_leads, 1),
            fact(ada_leads, 19),
            fact(what.Woken(), 24),
            fact(what.Elected(NEXT, 0), 24.5),
        ],
    )
    assert begun[1].elect_s == 0.5
    assert begun[1].sighting == Sighting(7, ago_s=5.5, watched_s=18.0)


def test_a_wake_up_that_led_to_nothing_and_a_wait_for_another_count_anew() -> None:
    notes = Notes(STORE)
    (begun,) = hear(
        notes,
        [
            fact(what.Waiting(Incumbent("jobs", BOB, TOKEN)), 1),
            fact(what.Woken(), 2),
            fact(what.Waiting(Incumbent("jobs", BOB, NEXT)), 3),
            fact(what.Elected(Token(9), 0), 10),
        ],
    )
    assert begun[1].elect_s is None
    assert begun[1].sighting == Sighting(8, ago_s=7.0, watched_s=0.0)


def test_after_trouble_with_the_store_what_was_seen_before_it_is_no_evidence() -> None:
    notes, ada_leads = Notes(STORE), what.Waiting(Incumbent("jobs", BOB, TOKEN))
    (begun,) = hear(
        notes,
        [
            fact(ada_leads, 1),
            fact(what.StoreFailed("claim", what.Outcome.UNKNOWN, "no answer"), 50),
            fact(ada_leads, 100),
            fact(what.Elected(NEXT, 0), 101),
        ],
    )
    assert begun[1].sighting == Sighting(7, ago_s=1.0, watched_s=0.0)


def test_an_overstay_is_written_at_once_and_goes_with_the_end() -> None:
    notes = Notes(STORE)
    told = hear(
        notes,
        [
            fact(what.Elected(TOKEN, 0), 1),
            fact(what.Overstayed(TOKEN, 1_500_000_000), 10),
            fact(what.Left(TOKEN, Reason.LAPSED), 12),
        ],
    )
    assert [(one.overstay_s, one.reason) for _, one in told] == [(None, None), (1.5, None), (1.5, "lapsed")]


def test_refused_writes_are_counted_also_after_the_end_and_written_ever_more_seldom() -> None:
    notes = Notes(STORE)
    refused = fact(what.RefusedStale("Table", 7, 8), 30, election="", holder=None, store="")
    facts = [fact(what.Elected(TOKEN, 0), 1), fact(what.Left(TOKEN, Reason.LAPSED), 12), *[refused] * 100]
    assert [one.refused_count for _, one in hear(notes, facts)][2:] == [1, 2, 4, 8, 16, 32, 64]
    assert [one.refused_count for _, one in notes.unwritten()] == [100]
    assert list(notes.unwritten()) == []


def test_a_refused_write_that_may_be_of_two_tenures_is_nobodys() -> None:
    notes = Notes(STORE)
    hear(notes, [fact(what.Elected(TOKEN, 0), 1, election=name) for name in ("jobs", "mail")])
    assert hear(notes, [fact(what.RefusedStale("Table", 7, 8), 30, holder=None)]) == []


def test_a_refused_write_is_of_the_tenure_whose_fence_it_met() -> None:
    notes = Notes(STORE, identity="here")
    hear(notes, [fact(what.Elected(TOKEN, 0), 1, election=name) for name in ("jobs", "mail")])
    hear(notes, [fact(what.Left(TOKEN, Reason.LAPSED), 2, election="mail")])

    def refused(fence: str) -> list[tuple[str, int]]:
        told = hear(notes, [fact(what.RefusedStale("Table", 7, 8, fence), 30, election="", holder=None, store="")])
        return [(election, one.refused_count) for election, one in told]

    assert refused("here/jobs") == [("jobs", 1)]
    assert refused("here/mail") == [("mail", 1)]  # also of one that is over
    assert refused("elsewhere/jobs") == refused("here/more/jobs") == []  # Another store's number 7 is another's.


def test_of_tenures_that_are_over_a_bounded_number_is_known_whatever_their_tokens() -> None:
    """Where each election counts for itself, a lock of a new name has a token 1 each time."""
    notes = Notes(STORE, identity="here")
    for number in range(1500):
        name, first = f"job/{number}", Token(1)
        hear(notes, [fact(what.Elected(first, 0), number, name), fact(what.Left(first, Reason.RESIGNED), number, name)])
        hear(notes, [fact(what.Withdrew(), number, name)])
    assert [len(kept) for kept in notes._past.values()] == [1000]

    def refused(fence: str) -> list[str]:
        stale = fact(what.RefusedStale("Table", 1, 2, fence), 2000, election="", holder=None, store="")
        return [election for election, _ in hear(notes, [stale])]

    assert refused("here/job/1499") == ["job/1499"]
    assert refused("here/job/499") == []
    hear(notes, [fact(what.Elected(TOKEN, 0), 2000), fact(what.Left(TOKEN, Reason.RESIGNED), 2001)])
    assert sum(len(kept) for kept in notes._past.values()) == 1000
    assert refused("here/job/500") == []  # The oldest goes, whichever token it had.


def test_elections_of_another_store_and_those_that_are_not_asked_for_are_left_out() -> None:
    notes = Notes(STORE, elections={"jobs"})
    facts = [
        fact(what.Elected(TOKEN, 0), 1, store="etcd://h1"),
        fact(what.Elected(TOKEN, 0), 1, election="mail"),
        fact(what.Elected(TOKEN, 0), 1),
    ]
    assert [election for election, _ in hear(notes, facts)] == ["jobs"]


def test_what_began_before_anybody_listened_is_not_made_up() -> None:
    assert hear(Notes(STORE), [fact(what.Left(TOKEN, Reason.RESIGNED), 5), renewed(1, 2)]) == []


def test_whoever_withdraws_is_forgotten() -> None:
    notes = Notes(STORE)
    hear(notes, [fact(what.Stood(1), 0), fact(what.Elected(TOKEN, 0), 1), fact(what.Left(TOKEN, Reason.RESIGNED), 2)])
    hear(notes, [fact(what.Withdrew(), 3), fact(what.StoreFailed("renew", what.Outcome.UNKNOWN, ""), 4)])
    assert (notes._candidates, notes._leading) == ({}, {})


def test_of_tenures_that_go_on_what_was_folded_can_be_had_at_any_time() -> None:
    notes = Notes(STORE)
    hear(notes, [fact(what.Elected(TOKEN, 0), 1), renewed(3.5, 5)])
    ((election, one),) = notes.unwritten()
    assert (election, one.margin_min_s, one.seen_s, one.reason) == ("jobs", 3.5, T0_S + 5, None)


def test_a_secret_in_an_address_is_not_kept() -> None:
    notes = Notes(STORE)
    facts = [
        fact(what.Elected(TOKEN, 0), 1),
        renewed(1, 2, "http://me:geheim@h1"),
        fact(what.Left(TOKEN, Reason.RESIGNED), 3),
    ]
    assert "geheim" not in repr(hear(notes, facts))


def test_a_tenure_that_lasts_is_written_ever_more_seldom() -> None:
    notes, year_s = Notes(STORE), 365 * 86_400
    hear(notes, [fact(what.Elected(TOKEN, 0), 0)])
    at_s = [
        round((one.seen_s or 0) - T0_S)
        for second in range(0, year_s, 3600)
        for _, one in hear(notes, [renewed(3.5, second)])
    ]
    assert at_s[:4] == [3600, 7200, 14_400, 28_800]
    assert len(at_s) == 14


def test_of_very_many_only_beginning_and_end_are_written() -> None:
    notes = Notes(STORE)
    hear(notes, [fact(what.Elected(Token(number), 0), 0, election=f"e{number}") for number in range(1, 102)])
    bids = tuple(Bid(f"e{number}", ADA, 1, 1) for number in range(1, 102))
    assert hear(notes, [fact(what.Renewed(bids, 5, 1), 1000, election="", holder=None)]) == []
    assert len(list(notes.unwritten())) == 101

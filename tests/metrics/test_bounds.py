"""How many series there can be, whatever a program stands in, sees and calls its stores, sinks and fences; and nothing goes uncounted."""

import pytest

from tenure.errors import ConfigError, Reason
from tenure.facts import kinds as what
from tenure.metrics import Prometheus
from tenure.model import Bid, Token
from tenure.stores.base import ElectionStatus
from tests.metrics.telling import ADA, BOB, SECOND_NS, STORE, Telling, status


def test_ten_thousand_elections_are_a_thousand_names_and_all_of_them_are_counted() -> None:
    told, sizes = Telling(), []
    for count in (1000, 10_000):
        for number in range(count):
            told(what.Elected(Token(1), 0), election=f"orders/{number}")
        text = told.text()
        sizes.append(len(text.splitlines()))
        assert told.store("elections", state="leading") == count
        assert text.count("\ntenure_leader{") == 1000
        led = [line for line in text.splitlines() if line.startswith("tenure_elected_total{")]
        assert sum(float(line.rpartition(" ")[2]) for line in led) == (1000 if count == 1000 else 11_000)
    assert sizes[1] == sizes[0] + 1  # one more series, for all the others
    assert told.value("elections_folded") == 9000


def test_of_ten_thousand_that_began_at_once_those_that_nobody_heard_are_counted_by_their_renewals() -> None:
    told = Telling(elections_max=100)
    bids = [Bid(f"e{number}", ADA, 1, 8 * SECOND_NS) for number in range(10_000)]
    for at_s in (1, 9):
        told(what.Renewed(bids, 6 * SECOND_NS, 0), at_s=at_s, of_store=True)
    assert told.store("elections", state="leading") == 10_000
    assert told.value("elections_folded") == 9900
    assert told.text().count("\ntenure_leader{") == 100


def test_only_so_many_elections_have_a_name_and_nothing_goes_uncounted() -> None:
    told = Telling(elections_max=2)
    for name in ("a", "b", "c", "d"):
        told(what.Elected(Token(1), 0), election=name)
    assert [told.value("leader", store=STORE, election=name) for name in "abcd"] == [1, 1, None, None]
    assert told.value("elected_total", store=STORE, election="/others") == 2
    assert (told.value("elections_folded"), told.store("elections", state="leading")) == (2, 4)
    for name in "ac":
        told(what.Left(Token(1), Reason.RESIGNED), election=name)
        told(what.Withdrew(), election=name)
    told.passes(301)
    told(what.Stood(SECOND_NS), election="e")  # The place of "a", of whom only the counters are left.
    assert told.value("waiting", store=STORE, election="e") == 1
    assert told.value("elected_total", store=STORE, election="a") is None
    assert told.value("elected_total", store=STORE, election="/others") == 3
    assert told.value("tenures_total", store=STORE, election="/others", reason="resigned") == 2
    assert told.value("elections_folded") == 1


def test_seeing_many_elections_makes_no_more_series_than_standing_in_them() -> None:
    told = Telling(elections_max=3)
    told.metrics.saw([status(f"e{number}", 1, BOB, waiting=0) for number in range(50)], STORE)
    assert told.text().count("\ntenure_leaders_seen{") == 3


def test_who_stands_is_shown_before_what_is_only_seen() -> None:
    told = Telling(elections_max=3)
    told(what.Stood(SECOND_NS), election="e0")
    for _ in range(2):
        told.metrics.saw([status(f"e{number}", 1, BOB, waiting=0) for number in range(50)], STORE)
        for name in ("a", "b", "c"):
            told(what.Stood(SECOND_NS), election=name)
        assert [told.value("waiting", store=STORE, election=name) for name in ("e0", "a", "b", "c")] == [1, 1, 1, None]
    assert told.value("elections_folded") == 1


def test_elections_that_were_held_once_are_not_shown() -> None:
    told = Telling()
    told(what.Stood(SECOND_NS))
    idle = [ElectionStatus(name, None, None, None, False, ()) for name in ("jobs", "order-1", "order-2")]
    told.metrics.saw(idle, STORE)
    assert told.text().count("\ntenure_leaders_seen{") == 1
    assert told.of("leaders_seen") == 0


def test_stores_that_a_program_makes_up_are_bounded() -> None:
    told = Telling()
    for number in range(150):
        told(what.Elected(Token(1), 0), at_store=f"sqlite:///tenants/{number}.db")
        told(what.StoreLost("gone"), of_store=True, at_store=f"sqlite:///tenants/{number}.db")
    assert told.text().count("\ntenure_store_lost{") == 101
    assert told.value("elections", store="/others", state="leading") == 50
    assert told.value("elected_total", store="/others", election="/others") == 50
    assert told.value("store_lost", store="/others") == 1


def test_a_store_with_a_long_address_is_shown_by_it() -> None:
    told, store = (
        Telling(),
        "etcds://" + ",".join(f"etcd-{number}.{'n' * 63}.svc.cluster.local:2379" for number in range(9)),
    )
    told(what.Elected(Token(1), 0), at_store=store)
    assert told.value("leader", store=store, election="jobs") == 1


def test_words_that_a_program_makes_up_are_bounded() -> None:
    told = Telling()
    for number in range(150):
        told(what.RefusedStale(f"Sink{number}", 1, 2), of_store=True)
        told(what.RefusedUnverified("Guard", 1, 2, f"made up {number}"), of_store=True)
    told(what.RefusedStale("Guard", 1, 2, "x" * 2000), of_store=True)
    assert told.value("stale_writes_refused_total", sink="/others", fence="") == 51
    assert told.value("unverified_writes_refused_total", sink="Guard", fence="/others") == 51
    assert told.value("stale_writes_refused_total", sink="Guard", fence="/others") == 1


def test_a_fence_that_cannot_be_sent_does_not_end_all_scrapes() -> None:
    told = Telling()
    told(what.RefusedUnverified("Orders", 500, 0, "jobs\ud800"), of_store=True)
    told(what.RefusedStale("Orders", 1, 2, "\udcff" * 601), of_store=True)
    assert told.value("unverified_writes_refused_total", sink="Orders", fence="jobs?") == 1
    assert told.value("stale_writes_refused_total", sink="Orders", fence="/others") == 1
    assert told.metrics.exposition()[0]


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="elections_max = 0: must be at least 1"):
        Prometheus(elections_max=0)

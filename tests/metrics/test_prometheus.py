"""What Prometheus is shown: facts in, a scrape out, by virtual time and without an office."""

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tenure.errors import Reason
from tenure.facts import kinds as what
from tenure.facts.kinds import Outcome
from tenure.metrics import Prometheus
from tenure.metrics.catalogue import METRICS, Kind
from tenure.model import Bid, Incumbent, Token
from tenure.stores.examining import bad, good, warning
from tests.metrics.telling import ADA, BOB, SECOND_NS, STORE, Telling, status


@pytest.fixture
def told() -> Telling:
    return Telling()


def test_a_candidate_waits_leads_and_leaves(told: Telling) -> None:
    told(what.Stood(15 * SECOND_NS))
    assert (told.of("leader"), told.of("waiting")) == (0, 1)
    told(what.Elected(Token(7), 0), at_s=1)
    assert (told.of("leader"), told.of("waiting"), told.of("token")) == (1, 0, 7)
    assert told.of("elected_timestamp_seconds") == told.wall_s
    told(what.Left(Token(7), Reason.RESIGNED), at_s=61)
    told(what.Withdrew(), at_s=61)
    assert (told.of("leader"), told.of("waiting"), told.of("elected_timestamp_seconds")) == (0, 0, None)
    assert told.of("tenures_total", reason="resigned") == told.of("elected_total") == 1
    assert told.store("time_in_office_seconds_sum") == 60
    assert (told.store("election_duration_seconds_count"), told.store("election_duration_seconds_sum")) == (1, 1)
    assert told.store("leaderless_seconds_count") == 0  # Nobody has said that the office was free before it stood.


def test_an_election_that_is_gone_is_not_shown_for_ever(told: Telling) -> None:
    told(what.Stood(15 * SECOND_NS))
    told(what.Withdrew())
    told.passes(299)
    assert told.of("leader") == 0
    told.passes(2)
    assert told.of("leader") is None
    assert told.of("elected_total") == 0  # What was counted stays: a counter that vanishes is no counter.


def test_an_election_lasts_from_standing_or_waking_to_office(told: Telling) -> None:
    told(what.Stood(15 * SECOND_NS))
    told(what.Waiting(Incumbent("jobs", BOB, Token(3))), at_s=1)
    told(what.Woken(), at_s=100)
    told(what.Elected(Token(4), 0), at_s=102)
    assert told.store("election_duration_seconds_sum") == 2
    assert told.store("election_duration_seconds_count") == 1
    assert told.store("election_duration_seconds_bucket", le="1.0") == 0
    assert told.store("election_duration_seconds_bucket", le="2.5") == 1


def test_a_gap_ends_with_ones_own_office_or_with_another_leader(told: Telling) -> None:
    told(what.Waiting(Incumbent("jobs", BOB, Token(3))))
    told(what.Woken(), at_s=10)
    told(what.Waiting(None), at_s=11)  # Nobody leads: it is another's turn.
    told(what.Waiting(Incumbent("jobs", BOB, Token(4))), at_s=14)
    assert told.store("leaderless_seconds_sum") == 4
    told(what.Woken(), at_s=20)
    told(what.Elected(Token(5), 0), at_s=21)
    assert (told.store("leaderless_seconds_count"), told.store("leaderless_seconds_sum")) == (2, 5)


def test_a_queue_that_moves_behind_the_leader_is_no_gap(told: Telling) -> None:
    for at_s in range(0, 30, 10):
        told(what.Waiting(Incumbent("jobs", BOB, Token(3))), at_s=at_s)
        told(what.Woken(), at_s=at_s + 5)
    told(what.Waiting(Incumbent("jobs", BOB, Token(3))), at_s=40)
    assert told.store("leaderless_seconds_count") == 0


def test_after_a_tenure_of_its_own_only_its_next_one_is_a_gap(told: Telling) -> None:
    told(what.Elected(Token(1), 0))
    told(what.Left(Token(1), Reason.LAPSED), at_s=5)
    told(what.Waiting(Incumbent("jobs", BOB, Token(2))), at_s=6)  # Since when it leads, nobody here knows.
    assert told.store("leaderless_seconds_count") == 0
    told(what.Elected(Token(3), 0), at_s=10)
    told(what.Left(Token(3), Reason.RESIGNED), at_s=11)
    told(what.Elected(Token(4), 0), at_s=14)
    assert told.store("leaderless_seconds_sum") == 3


def test_margins_are_shown_of_the_store_and_the_least_of_the_running_tenure(told: Telling) -> None:
    bid = Bid("jobs", ADA, 1, 10 * SECOND_NS)
    told(what.Elected(Token(1), 0))
    for margin_s in (7, 2, 6):
        told(
            what.Renewed((bid, Bid("other", BOB, 1, SECOND_NS)), margin_s * SECOND_NS, SECOND_NS // 100), of_store=True
        )
    assert told.of("renewal_margin_least_seconds") == 2
    assert (told.store("renewal_margin_seconds_count"), told.store("renewal_margin_seconds_sum")) == (3, 15)
    assert told.store("renewal_margin_ratio_bucket", le="0.2") == 1
    assert told.store("renewal_duration_seconds_bucket", le="0.01") == 3
    told(what.Left(Token(1), Reason.RESIGNED))
    told(what.Elected(Token(2), 0))
    assert told.of("renewal_margin_least_seconds") is None


def test_an_overstay_grows_while_the_body_runs(told: Telling) -> None:
    told(what.Elected(Token(1), 0))
    told(what.Overstayed(Token(1), SECOND_NS), at_s=10)
    assert told.of("overstays_total") == 1
    told.passes(4)
    assert told.of("overstay_seconds_total") == 5
    told(what.Left(Token(1), Reason.LAPSED), at_s=20)
    told.passes(100)
    assert told.of("overstay_seconds_total") == 11


def test_a_store_that_is_lost_is_shown_and_timed(told: Telling) -> None:
    told(what.StoreFailed("renew", Outcome.UNKNOWN, "no answer in time"))
    told(what.StoreLost("no answer in time"), of_store=True)
    told.passes(3)
    assert (told.store("store_lost"), told.store("store_lost_time_seconds_total")) == (1, 3)
    told(what.StoreBack(4 * SECOND_NS), of_store=True)
    told.passes(3)
    assert (told.store("store_lost"), told.store("store_lost_time_seconds_total")) == (0, 4)
    told(what.StoreFailed("claim", Outcome.REFUSED, "no right"))
    told(what.StoreFailed("claim", Outcome.UNREACHABLE, "nobody listens"))
    for operation, outcome in (("renew", "unknown"), ("claim", "refused"), ("claim", "unreachable")):
        assert told.store("store_errors_total", operation=operation, outcome=outcome) == 1


def test_what_sinks_refuse_and_how_long_a_machine_slept_is_counted(told: Telling) -> None:
    told(what.RefusedStale("SqliteSink", 1, 2, "etcd/7/jobs"), of_store=True)
    told(what.RefusedStale("SqliteSink", 1, 2, "etcd/7/mail"), of_store=True)
    told(what.RefusedUnverified("Marks", 9, 2), of_store=True)  # It does not say whose it was.
    told(what.SealFailed(Token(1), "Marks", "no", True))
    told(what.SealFailed(Token(1), "Marks", "by choice", False))
    assert told.value("suspended_seconds_total") == 0
    told(what.Suspended(90 * SECOND_NS), of_store=True)
    for election in ("jobs", "mail"):
        assert told.value("stale_writes_refused_total", sink="SqliteSink", fence=f"etcd/7/{election}") == 1
    assert told.value("unverified_writes_refused_total", sink="Marks", fence="") == 1
    assert told.store("seal_failures_total", sink="Marks") == 1
    assert told.value("suspended_seconds_total") == 90


def test_a_fact_that_was_missed_is_made_up_for_by_the_next_one(told: Telling) -> None:
    told(what.Elected(Token(1), 0))
    told(what.Waiting(None))  # Nobody has heard it leave.
    assert (told.of("leader"), told.of("waiting")) == (0, 1)


def test_a_leader_whose_election_nobody_heard_leads_once_its_renewals_show_it(told: Telling) -> None:
    bid = Bid("jobs", ADA, 3, 8 * SECOND_NS)
    told(what.Stood(8 * SECOND_NS))
    for at_s in (10, 12, 14, 16):  # As those of an office that is granted and still being sealed would be.
        told(what.Renewed([bid], 6 * SECOND_NS, 0), at_s=at_s, of_store=True)
        assert (told.of("leader"), told.of("waiting")) == (0, 1)
    told(what.Renewed([bid], 2 * SECOND_NS, 0), at_s=18, of_store=True)
    assert (told.of("leader"), told.of("waiting"), told.of("renewal_margin_least_seconds")) == (1, 0, 2)
    assert told.store("elections", state="leading") == 1
    told(what.Left(Token(7), Reason.RESIGNED), at_s=30)
    assert (told.of("leader"), told.store("time_in_office_seconds_sum")) == (0, 20)
    assert told.of("tenures_total", reason="resigned") == 1


def test_bids_that_are_given_up_before_office_are_no_leader(told: Telling) -> None:
    told(what.Stood(8 * SECOND_NS))
    for number, at_s in enumerate(range(2, 40, 6)):  # A sink cannot be sealed: each try ends within its lease.
        told(what.Renewed([Bid("jobs", ADA, number, 8 * SECOND_NS)], SECOND_NS, 0), at_s=at_s, of_store=True)
        assert told.of("leader") == 0
    told(what.Waiting(None), at_s=40)
    told(what.Renewed([Bid("jobs", ADA, 6, 8 * SECOND_NS)], SECOND_NS, 0), at_s=47, of_store=True)
    assert told.of("leader") == 0  # What it said in between begins it anew.


def test_one_that_is_never_heard_of_again_leads_no_longer_than_a_lease_can_last(told: Telling) -> None:
    bid = Bid("jobs", ADA, 1, 8 * SECOND_NS)
    told(what.Stood(8 * SECOND_NS))
    told(what.Elected(Token(1), 0))
    told(what.Renewed([bid], SECOND_NS, 0), at_s=10, of_store=True)
    told.passes(15)
    assert (told.of("leader"), told.store("elections", state="leading")) == (1, 1)
    told.passes(2)  # Of ten thousand that left at once, nobody has heard this one.
    told.metrics.saw([status("jobs", 2, BOB, waiting=0)], STORE)
    assert (told.of("leader"), told.of("leaders_seen"), told.store("elections", state="leading")) == (0, 1, 0)
    told(what.Renewed([bid], SECOND_NS, 0), at_s=30, of_store=True)  # It was renewals that were missed.
    assert told.of("leader") == 1


def test_a_body_that_hangs_leads_for_as_long_as_it_does(told: Telling) -> None:
    told(what.Stood(8 * SECOND_NS))
    told(what.Elected(Token(1), 0))
    told(what.Overstayed(Token(1), 0), at_s=8)
    told.passes(1000)
    assert (told.of("leader"), told.of("overstay_seconds_total")) == (1, 1000)


def test_two_candidates_of_one_process_are_one_election(told: Telling) -> None:
    told(what.Elected(Token(1), 0))
    told(what.Stood(SECOND_NS), holder=BOB)
    assert (told.of("leader"), told.of("waiting")) == (1, 0)
    told(what.Withdrew(), holder=BOB)
    assert told.of("leader") == 1
    assert told.store("elections", state="leading") == 1


def test_a_picture_of_the_store_tells_queue_and_leaders(told: Telling) -> None:
    told(what.Waiting(Incumbent("jobs", BOB, Token(3))))
    told.metrics.saw([status("jobs", 4, BOB, waiting=2), status("seen", 9, BOB, waiting=0)], STORE)
    assert (told.of("queue_position"), told.of("standbys"), told.of("leaders_seen")) == (2, 2, 1)
    assert told.of("token") == 4
    assert told.value("leaders_seen", store=STORE, election="seen") == 1
    assert told.value("leader", store=STORE, election="seen") is None  # Nobody of this process stands there.
    assert told.value("token", store=STORE, election="seen") == 9
    told(what.Elected(Token(5), 0))
    assert told.of("leaders_seen") == 2
    told.passes(61)
    assert (told.of("queue_position"), told.of("leaders_seen")) == (None, None)


def test_an_election_that_was_seen_first_is_counted_from_nought(told: Telling) -> None:
    told.metrics.saw([status("jobs", 4, BOB, waiting=2)], STORE)
    assert told.of("elected_total") is None
    told(what.Stood(SECOND_NS))
    assert (told.of("elected_total"), told.store("store_lost"), told.store("leaderless_seconds_count")) == (0, 0, 0)
    assert told.store("elections", state="waiting") == 1


def test_what_a_doctor_finds_is_counted_by_level(told: Telling) -> None:
    told.metrics.examined([good("clock", ""), warning("members", "", ""), bad("alarms", "")], STORE)
    assert told.store("store_findings", subject="alarms", level="bad") == 1
    told.metrics.examined([good("clock", ""), good("members", "")], STORE)
    assert told.store("store_findings", subject="alarms", level="bad") is None
    assert told.store("store_findings", subject="members", level="good") == 1
    told.passes(901)
    assert told.store("store_findings", subject="members", level="good") is None


def test_a_scrape_is_what_prometheus_client_would_have_written(told: Telling) -> None:
    told(what.Elected(Token(12_345_678_901_234), 0), election='odd "name" \\ with\u2003everything')
    told(what.Stood(SECOND_NS))
    told(what.Renewed((Bid("jobs", ADA, 1, SECOND_NS),), SECOND_NS // 3, 12_345), of_store=True)
    told(what.Left(Token(1), Reason.STORE_GONE), election="jobs")
    body, content_type = told.metrics.exposition()
    assert body == generate_latest(told.metrics.registry)
    assert content_type.startswith("text/plain; version=0.0.4")


def test_a_registry_may_hold_metrics_of_others_too() -> None:
    registry = CollectorRegistry()
    Counter("others", "Of somebody else.", registry=registry).inc()
    metrics = Prometheus(registry)
    body = metrics.exposition()[0].decode()
    assert "others_total 1.0" in body
    assert body.count("# TYPE tenure_leader gauge") == 1
    assert generate_latest(registry).decode().count("# TYPE tenure_leader gauge") == 1
    with pytest.raises(ValueError, match="Duplicated"):
        Prometheus(registry)


def test_names_are_as_prometheus_wants_them(told: Telling) -> None:
    families = {family.name: family.type for family in text_string_to_metric_families(told.text())}
    assert families == {metric.name: metric.kind.value for metric in METRICS}
    assert all(metric.buckets == tuple(sorted(metric.buckets)) for metric in METRICS)
    assert len({metric.otel_name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert bool(metric.buckets) is (metric.kind is Kind.HISTOGRAM), metric.name
        assert metric.help.endswith("."), metric.name

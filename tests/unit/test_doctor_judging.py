"""What a doctor says of what was measured: every threshold, from both sides."""

from dataclasses import replace

import pytest

from tenure.stores.base import Expiry, Traits, Wake
from tenure.stores.etcd.examine import judge_alarms, judge_space
from tenure.stores.examining import Level
from tenure.stores.judging import (
    judge_certificate,
    judge_clock,
    judge_latency,
    judge_leaders,
    judge_members,
    judge_minimum,
    judge_plain,
    judge_quorum,
    judge_versions,
    promises,
)
from tenure.stores.zookeeper.examine import Server, judge_modes, read_server

GOOD, WARNING, BAD = Level.GOOD, Level.WARNING, Level.BAD
TTL_NS = 8 * 10**9
DAY_S = 86_400
NOW_S = 1_800_000_000.0


@pytest.mark.parametrize(
    ("voter_count", "level", "told", "advice"),
    [
        (1, WARNING, "1 voting member: none may fail", "use 3"),
        (2, WARNING, "2 voting members: none may fail", "no more than 1 tolerate: use 3"),
        (3, GOOD, "3 voting members: 1 may fail", ""),
        (4, WARNING, "4 voting members: 1 may fail", "no more than 3 tolerate: use 5"),
        (5, GOOD, "5 voting members: 2 may fail", ""),
        (6, WARNING, "6 voting members: 2 may fail", "no more than 5 tolerate: use 7"),
        (7, GOOD, "7 voting members: 3 may fail", ""),
        (8, WARNING, "8 voting members: 3 may fail", "every write waits for 5 of them: 5 are enough"),
        (9, WARNING, "9 voting members: 4 may fail", "every write waits for 5 of them: 5 are enough"),
    ],
)
def test_a_quorum_is_judged_by_how_many_may_fail_and_by_what_it_costs(
    voter_count: int, level: Level, told: str, advice: str
) -> None:
    finding = judge_quorum(voter_count)
    assert (finding.level, finding.detail) == (level, told)
    assert advice in finding.advice
    assert bool(finding.advice) == (level is not GOOD)


def test_a_member_that_does_not_answer_is_named_with_the_reason() -> None:
    finding = judge_members({"h1:2379": None, "h2:2379": "h2:2379: nobody listens", "h3:2379": "no answer"}, 3)
    assert finding.level is WARNING
    assert finding.detail == "1 of the 3 that the URL names answer; h2:2379: nobody listens; h3:2379: no answer"


@pytest.mark.parametrize(("listed_count", "level"), [(None, GOOD), (1, GOOD), (2, GOOD), (3, WARNING)])
def test_a_url_that_names_fewer_members_than_there_are_is_warned_of(listed_count: int | None, level: Level) -> None:
    finding = judge_members({"h1:2379": None, "h2:2379": None}, listed_count)
    assert finding.level is level
    assert ("and there are 3" in finding.detail) == (level is WARNING)


@pytest.mark.parametrize(
    ("versions", "level", "told"),
    [
        (["3.7.3", "3.7.3"], GOOD, "3.7.3"),
        (["3.4.23", "3.7.3"], WARNING, "h0 has 3.4.23, h1 has 3.7.3"),
        (["3.5.1", "3.5.1"], WARNING, "3.5.1"),
    ],
)
def test_members_of_two_versions_and_a_version_that_is_known_to_fail_are_warned_of(
    versions: list[str], level: Level, told: str
) -> None:
    finding = judge_versions({f"h{at}": version for at, version in enumerate(versions)}, {"3.5.1": "upgrade"})
    assert (finding.level, finding.detail) == (level, told)


@pytest.mark.parametrize(
    ("leaders", "level", "told"),
    [
        (["n1", "n1", "n1"], GOOD, "n1"),
        (["n1", "n2", "n2"], WARNING, "h0 says n1, h1 says n2, h2 says n2"),
        (["n1", "", "n1"], WARNING, "n1, but h1 knows of none"),
        (["", ""], BAD, "no member knows of one"),
    ],
)
def test_an_engine_without_one_leader_for_all_members_is_told_of(leaders: list[str], level: Level, told: str) -> None:
    finding = judge_leaders({f"h{at}": leader for at, leader in enumerate(leaders)})
    assert (finding.level, finding.detail) == (level, told)


@pytest.mark.parametrize(
    ("median_ns", "level"),
    [
        (TTL_NS // 20, GOOD),
        (TTL_NS // 20 + 1, WARNING),
        (TTL_NS // 4, WARNING),
        (TTL_NS // 4 + 1, BAD),
    ],
)
def test_latency_is_judged_against_the_lease_that_is_renewed_in_that_time(median_ns: int, level: Level) -> None:
    assert judge_latency("a read", median_ns, TTL_NS).level is level


@pytest.mark.parametrize("median_ns", [TTL_NS // 20 + 10**6, TTL_NS // 4 + 10**6])
def test_the_ttl_that_is_advised_for_a_slow_engine_is_long_enough_for_it(median_ns: int) -> None:
    advised_s = float(judge_latency("a read", median_ns, TTL_NS).advice.split("at least ")[1].split(" s")[0])
    assert judge_latency("a read", median_ns, round(advised_s * 1.01 * 1e9)).level is GOOD


@pytest.mark.parametrize(("left_days", "level"), [(-1, WARNING), (0, WARNING), (13.9, WARNING), (14, GOOD), (90, GOOD)])
def test_a_certificate_that_ends_within_two_weeks_is_warned_of(left_days: float, level: Level) -> None:
    finding = judge_certificate("h1:2379", NOW_S + left_days * DAY_S, NOW_S)
    assert finding.level is level
    assert f"in {left_days:.0f} days" in finding.detail


def test_the_end_of_a_certificate_is_told_as_a_date() -> None:
    assert "ends on 2027-04-15" in judge_certificate("h1:2379", NOW_S + 90 * DAY_S, NOW_S).detail


@pytest.mark.parametrize(
    ("hosts", "level"),
    [
        (["127.0.0.1", "[::1]", "localhost"], GOOD),
        (["127.0.0.1", "10.0.0.5"], WARNING),
        (["etcd.example.org"], WARNING),
    ],
)
def test_a_connection_without_tls_is_warned_of_if_it_leaves_the_machine(hosts: list[str], level: Level) -> None:
    assert judge_plain(hosts).level is level


@pytest.mark.parametrize(
    ("ahead_s", "level", "told"),
    [
        (0.04, GOOD, "0.0 s ahead of"),
        (-4.9, GOOD, "4.9 s behind"),
        (5.1, WARNING, "5.1 s ahead of"),
        (-60, WARNING, "60"),
    ],
)
def test_a_clock_that_is_far_from_ours_is_warned_of(ahead_s: float, level: Level, told: str) -> None:
    finding = judge_clock(ahead_s)
    assert finding.level is level
    assert told in finding.detail


@pytest.mark.parametrize(("minimum_s", "level"), [(2, GOOD), (8, GOOD), (9, WARNING)])
def test_an_engine_that_lengthens_the_lease_is_warned_of(minimum_s: int, level: Level) -> None:
    finding = judge_minimum(minimum_s * 10**9, TTL_NS)
    assert finding.level is level
    assert f"gives {minimum_s} s or more" in finding.detail


def test_an_alarm_of_etcd_is_bad_and_says_what_to_do() -> None:
    assert [finding.level for finding in judge_alarms([])] == [GOOD]
    full, corrupt = judge_alarms(["NOSPACE", "CORRUPT"])[::-1]
    assert (full.level, corrupt.level) == (BAD, BAD)
    assert "compact and defragment" in full.advice
    assert judge_alarms(["alarm 7"])[0].level is BAD


@pytest.mark.parametrize(("size_bytes", "level"), [(2**20, GOOD), (int(1.7 * 2**30), WARNING)])
def test_a_database_near_the_quota_that_etcd_is_shipped_with_is_warned_of(size_bytes: int, level: Level) -> None:
    assert judge_space(size_bytes).level is level


@pytest.mark.parametrize(
    ("answer", "server"),
    [
        ("Zookeeper version: 3.9.5-35f02b1, built on 2025\nMode: follower\n", Server("3.9.5", "follower")),
        ("Zookeeper version: 3.8.0-5a02a05, built on 2022\nMode: standalone\n", Server("3.8.0", "standalone")),
        ("This ZooKeeper instance is not currently serving requests\n", Server(mode="waiting")),
        ("srvr is not executed because it is not in the whitelist.\n", Server()),
        ("HTTP/1.1 400 Bad Request\r\n", Server(silence="it is no ZooKeeper: check host and port")),
        ("", Server(silence="it is no ZooKeeper: check host and port")),
    ],
)
def test_what_a_server_of_zookeeper_says_of_itself_is_read(answer: str, server: Server) -> None:
    assert read_server(answer) == server


@pytest.mark.parametrize(
    ("modes", "level", "told"),
    [
        (["follower", "leader", "follower"], GOOD, "h1"),
        (["standalone"], GOOD, "h0"),
        (["follower"], GOOD, "a server that does not answer, or that the URL does not name"),
        (["waiting", "follower"], GOOD, "a server that does not answer, or that the URL does not name"),
        (["waiting"], BAD, "no server knows of one"),
        (["leader", "leader"], WARNING, "h0 and h1 each say so"),
        ([""], GOOD, "not told: srvr is not in 4lw.commands.whitelist"),
    ],
)
def test_the_leader_of_an_ensemble_is_found_by_what_its_servers_say(modes: list[str], level: Level, told: str) -> None:
    finding = judge_modes({f"h{at}": mode for at, mode in enumerate(modes)})
    assert (finding.level, finding.detail) == (level, told)


TRAITS = Traits(
    queue=True,
    wake=Wake.WATCH,
    expiry=Expiry.ENGINE,
    token_source="a counter",
    ttl_min_ns=2 * 10**8,
    ttl_max_ns=7 * DAY_S * 10**9,
    expiry_slack_ns=2 * 10**9,
)


def test_what_a_store_promises_is_told_in_plain_words() -> None:
    assert [finding.detail for finding in promises(TRAITS)] == [
        "who came first is next in office",
        "a standby is told when its turn may have come",
        "the engine ends a lease that nobody renews, by its own clock",
        "the office of a leader that died is free at most 2 s after the end of its lease",
        "tokens come from a counter",
        "a ttl may be from 0.2 s to 7 days",
    ]


def test_a_weak_store_promises_less() -> None:
    weak = replace(TRAITS, queue=False, wake=Wake.POLL, expiry=Expiry.OBSERVER)
    strong = [finding.detail for finding in promises(TRAITS)]
    assert sum(finding.detail not in strong for finding in promises(weak)) == 3


@pytest.mark.parametrize("wake", Wake)
@pytest.mark.parametrize("expiry", Expiry)
def test_every_kind_of_trait_has_words(wake: Wake, expiry: Expiry) -> None:
    assert all(finding.detail for finding in promises(replace(TRAITS, wake=wake, expiry=expiry)))

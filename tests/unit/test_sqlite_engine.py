"""The engine in SQL says what the model engine says, and what only a file on a machine can be asked."""

import sqlite3
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.model import TOKEN_MAX, Bid, Conflict, Document, Ended, Grant, Holder, Incumbent, Token, Version, Wait
from tenure.stores.memory import MemoryEngine
from tenure.stores.sqlite.engine import Denied, Engine, Renewed, Swap
from tenure.stores.sqlite.file import _SCHEMA
from tenure.stores.sqlite.host import Host
from tenure.timing import Timing

HERE = Host("boot", "time:[1]")
TTL_NS = 100
ADA, BOB, EVE = (Holder("host", 1, name) for name in ("ada", "bob", "eve"))


class Database(sqlite3.Connection):
    """Closes itself, which Python 3.13 and later want to be done by hand."""

    def __del__(self) -> None:
        self.close()


def database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, factory=Database)
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute("INSERT INTO store VALUES (1, 'identity', 0, 0)")
    return connection


def engine() -> Engine:
    return Engine(database(), HERE)


def bid(holder: Holder, serial: int = 1, ttl_ns: int = TTL_NS, election: str = "e") -> Bid:
    return Bid(election, holder, serial, ttl_ns)


def granted(answer: Grant | Wait) -> Grant:
    assert isinstance(answer, Grant)
    return answer


bids = st.builds(
    Bid,
    st.sampled_from(["e", "e/2"]),
    st.sampled_from([ADA, BOB, Holder("host", 2, "ada")]),
    st.integers(1, 3),
    st.sampled_from([50, 100, 300]),
    st.sampled_from(["", "http://10.0.0.5:8080"]),
)
deeds = st.one_of(
    st.tuples(st.just("claim"), bids),
    st.tuples(st.just("claim"), bids),
    st.tuples(st.just("release"), bids),
    st.tuples(st.just("renew"), st.lists(st.integers(0, 5), max_size=3)),
    st.tuples(st.just("delete"), st.sampled_from(["e", "e/2"])),
    st.tuples(st.just("pass"), st.integers(0, 200)),
)


@dataclass
class Pair:
    """The two engines side by side, and what was granted so far."""

    connection: sqlite3.Connection = field(default_factory=database)
    model: MemoryEngine = field(default_factory=MemoryEngine)
    grants: list[Grant] = field(default_factory=list)
    now: int = 1_000

    def __post_init__(self) -> None:
        self.sql = Engine(self.connection, HERE)

    def both(self, deed: str, subject: object) -> tuple[object, object]:
        """Do the same to both, and return what they answer."""
        match deed, subject:
            case "claim", Bid() as asked:
                ours, theirs = self.sql.claim(asked, self.now), self.model.claim(asked, self.now)
                self.grants += [ours] if isinstance(ours, Grant) else []
                return ours, theirs
            case "renew", list(numbers):
                grants = [self.grants[-1 - number] for number in numbers if number < len(self.grants)]
                answers = [self.model.renew(grant, self.now) for grant in grants]
                return self.sql.renew(grants, self.now), Renewed(answers, [])
            case "release", Bid() as left:
                self.sql.release(left)
                self.model.release(left, self.now)
            case "delete", str(election):
                self.connection.execute("DELETE FROM office WHERE election = ?", (election,))
                self.model.delete(election)
            case "pass", int(ns):
                self.now += ns
        return None, None


@given(st.lists(deeds, max_size=40))
@settings(max_examples=300)
def test_it_answers_like_the_model_engine_whatever_is_asked(story: list[tuple[str, object]]) -> None:
    pair = Pair()
    for deed, subject in story:
        ours, theirs = pair.both(deed, subject)
        assert ours == theirs
        for election in ("e", "e/2"):
            assert pair.sql.read(election, pair.now) == pair.model.read(election, pair.now)
            assert pair.sql.expires(election, pair.now) == pair.model.next_expiry(election, pair.now)
    assert all(one.token < other.token or one == other for one, other in pairwise(pair.grants) if one.bid == other.bid)


@given(st.lists(deeds, max_size=40))
@settings(max_examples=200)
def test_no_office_ends_sooner_than_it_did_without_a_change_of_turnover(story: list[tuple[str, object]]) -> None:
    # A standby that saw the lease end at some instant does not look before, unless this number changes.
    pair = Pair()
    for deed, subject in story:
        before = pair.sql.turnover()
        ends = {election: pair.sql.expires(election, pair.now) for election in ("e", "e/2")}
        pair.both(deed, subject)
        if deed != "pass" and pair.sql.turnover() == before:
            for election, end in ends.items():
                assert end is None or (pair.sql.expires(election, pair.now) or 0) >= end


@pytest.mark.parametrize(
    "other",
    [
        bid(BOB),
        bid(Holder("host", 2, "ada")),
        bid(Holder("elsewhere", 1, "ada")),
        bid(ADA, serial=2),
        bid(ADA, election="f"),
    ],
)
def test_a_tenure_is_not_renewed_for_another_bid_under_the_same_token(other: Bid) -> None:
    # A file that was restored from a copy issues tokens again. Whoever had one before must not be told that it leads.
    sql = engine()
    grant = granted(sql.claim(bid(ADA), 0))
    copy = Grant(other, grant.token)
    assert sql.renew([copy], 50).answers == [Ended(other, grant.token)]
    assert sql.expires("e", 50) == TTL_NS
    assert sql.renew([grant, copy], 50).answers == [grant, Ended(other, grant.token)]
    assert sql.expires("e", 50) == 50 + TTL_NS


def test_a_renewal_leaves_the_turnover_as_it_is() -> None:
    sql = engine()
    grant = granted(sql.claim(bid(ADA), 0))
    before = sql.turnover()
    assert sql.renew([grant], 50).answers == [grant]
    assert sql.turnover() == before


def test_a_reboot_frees_every_lease_although_the_clock_began_anew() -> None:
    connection = database()
    first = granted(Engine(connection, HERE).claim(bid(ADA, ttl_ns=10**12), 10**15))
    rebooted = Engine(connection, Host("next boot", HERE.time_namespace))
    assert rebooted.read("e", 5) is None
    assert rebooted.expires("e", 5) is None
    assert rebooted.renew([first], 5).answers == [Ended(first.bid, first.token)]
    assert granted(rebooted.claim(bid(BOB), 5)).token > first.token


@pytest.mark.parametrize("ask", [lambda sql: sql.claim(bid(BOB), 5), lambda sql: sql.read("e", 5)])
def test_a_lease_of_another_time_namespace_is_not_judged(ask: object) -> None:
    connection = database()
    Engine(connection, HERE).claim(bid(ADA), 0)
    elsewhere = Engine(connection, Host(HERE.boot_id, "time:[2]"))
    assert callable(ask)
    with pytest.raises(Denied, match=r"in another time namespace .* run everything that shares this file in one"):
        ask(elsewhere)
    assert Engine(connection, HERE).read("e", 5) == Incumbent("e", ADA, Token(1))


def test_a_lease_is_not_prolonged_by_the_clock_of_another_time_namespace() -> None:
    connection = database()
    here, elsewhere = Engine(connection, HERE), Engine(connection, Host(HERE.boot_id, "time:[2]"))
    grant = granted(here.claim(bid(ADA), 0))
    assert elsewhere.renew([grant], 5).answers == [Ended(grant.bid, grant.token)]
    assert here.expires("e", 5) == TTL_NS


def test_an_office_that_was_left_may_be_taken_from_another_time_namespace() -> None:
    connection = database()
    here, elsewhere = Engine(connection, HERE), Engine(connection, Host(HERE.boot_id, "time:[2]"))
    here.claim(bid(ADA), 0)
    here.release(bid(ADA))
    assert granted(elsewhere.claim(bid(BOB), 5)).token == 2


def test_the_last_token_is_issued_and_none_after_it() -> None:
    connection = database()
    sql = Engine(connection, HERE)
    connection.execute("UPDATE store SET last_token = ?", (TOKEN_MAX - 1,))
    assert granted(sql.claim(bid(ADA), 0)).token == TOKEN_MAX
    sql.release(bid(ADA))
    with pytest.raises(Denied, match="used up"):
        sql.claim(bid(ADA, 2), 0)
    assert sql.read("e", 0) is None


@pytest.mark.parametrize("deed", ["UPDATE store SET last_token = last_token - 1", "DELETE FROM store"])
def test_the_counter_cannot_be_rewound_by_hand(deed: str) -> None:
    connection = database()
    Engine(connection, HERE).claim(bid(ADA), 0)
    with pytest.raises(sqlite3.IntegrityError, match="tokens never fall"):
        connection.execute(deed)


def test_a_request_to_resign_reaches_the_tenure_in_office_and_no_later_one() -> None:
    sql = engine()
    assert sql.ask_to_resign("e", 0) is None
    first = granted(sql.claim(bid(ADA), 0))
    other = granted(sql.claim(bid(BOB, election="f"), 0))
    assert sql.renew([first, other], 1) == ([first, other], [])
    assert sql.ask_to_resign("e", 1) == Incumbent("e", ADA, first.token)
    assert sql.renew([first, other], 2) == ([first, other], [first])
    assert [status.resign_asked for status in sql.elections(2)] == [True, False]
    second = granted(sql.claim(bid(ADA, 2), 3))
    assert sql.renew([second, other], 4) == ([second, other], [])


def test_the_status_tells_who_leads_since_when_for_how_long_and_who_waits() -> None:
    sql = engine()
    sql.claim(bid(ADA), 10)
    sql.claim(bid(BOB), 20)
    sql.claim(bid(EVE), 30)
    assert sql.must_record_standbys()
    sql.write_standbys()
    sql.claim(bid(ADA, election="free"), 40)
    sql.release(bid(ADA, election="free"))
    led, free = sql.elections(40)
    assert (led.election, led.incumbent, led.held_for_ns, led.remaining_ns) == (
        "e",
        Incumbent("e", ADA, Token(1)),
        30,
        70,
    )
    assert led.standbys == (BOB, EVE)
    assert (free.election, free.incumbent, free.held_for_ns, free.remaining_ns) == ("free", None, None, None)


def test_a_standby_is_forgotten_when_it_takes_office_withdraws_or_is_silent_for_more_than_two_and_a_half_ttl() -> None:
    sql = engine()
    sql.claim(bid(ADA, ttl_ns=1_000), 0)
    for holder in (BOB, EVE):
        sql.claim(bid(holder), 0)
    sql.write_standbys()
    assert sql.elections(274)[0].standbys == (BOB, EVE)
    assert sql.elections(275)[0].standbys == ()
    sql.release(bid(EVE))
    assert sql.elections(274)[0].standbys == (BOB,)
    sql.release(bid(ADA))
    sql.claim(bid(BOB), 1)
    assert sql.elections(274)[0].standbys == ()


@given(st.lists(st.integers(0, Timing.of(ttl=1e-3).recheck_after_ns(1.0)), max_size=30))
@settings(max_examples=200)
def test_a_standby_that_claims_whenever_the_machine_makes_it_is_counted_all_the_time(pauses_ns: list[int]) -> None:
    # Woken in vain now and then, and by itself when the watch was silent. What a claim may be late by is on top.
    sql, now, ttl_ns = engine(), 0, Timing.of(ttl=1e-3).ttl_ns
    sql.claim(bid(ADA, ttl_ns=10**12), now)
    for pause_ns in pauses_ns:
        sql.claim(bid(BOB, ttl_ns=ttl_ns), now)
        if sql.must_record_standbys():
            sql.write_standbys()
        now += pause_ns
        assert sql.elections(now + ttl_ns // 8 - 1)[0].standbys == (BOB,)


def test_a_bid_that_is_withdrawn_before_it_was_recorded_is_never_recorded() -> None:
    sql = engine()
    sql.claim(bid(ADA), 0)
    sql.claim(bid(BOB), 0)
    sql.release(bid(BOB))
    assert not sql.must_record_standbys()


def test_a_standby_that_claims_again_soon_is_not_written_again() -> None:
    sql = engine()
    sql.claim(bid(ADA, ttl_ns=1_000), 0)
    sql.claim(bid(BOB), 0)
    sql.write_standbys()
    sql.claim(bid(BOB), 12)
    assert not sql.must_record_standbys()
    sql.claim(bid(BOB), 13)
    assert sql.must_record_standbys()


def test_a_status_from_another_time_namespace_names_the_incumbent_and_no_times() -> None:
    connection = database()
    Engine(connection, HERE).claim(bid(ADA), 0)
    (status,) = Engine(connection, Host(HERE.boot_id, "time:[2]")).elections(10**9)
    assert (status.incumbent, status.held_for_ns, status.remaining_ns) == (Incumbent("e", ADA, Token(1)), None, None)


def test_a_document_is_written_by_the_version_that_is_there_and_by_no_other() -> None:
    file = engine()
    assert file.swap(Swap("k", b"1", Version("none"))) == Conflict(None)  # In this file nothing was ever kept.
    first = file.swap(Swap("k", b"1", None))
    assert isinstance(first, Document)
    second = file.swap(Swap("k", b"2", first.version))
    assert isinstance(second, Document)
    for version in (None, first.version):
        assert file.swap(Swap("k", b"3", version)) == Conflict(second)
    assert file.swap(Swap("other", b"3", second.version)) == Conflict(None)
    assert file.fetch("k") == second
    assert len({first.version, second.version}) == 2


def test_a_document_that_cannot_be_written_is_no_conflict() -> None:
    connection = database()
    file = Engine(connection, HERE)
    written = file.swap(Swap("k", b"1", None))
    assert isinstance(written, Document)
    connection.execute("PRAGMA query_only = ON")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        file.swap(Swap("k", b"2", written.version))

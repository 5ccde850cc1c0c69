"""The parts of SQL stores that speak to no database: tokens, rows, places, sightings, settings, and what a doctor says."""

import asyncio
from pathlib import Path

import pytest

from tenure.errors import ConfigError, Refused, Unreachable
from tenure.model import TOKEN_MAX, Bid, Grant, Holder, Token
from tenure.stores.base import Wake
from tenure.stores.examining import Level
from tenure.stores.mysql import examine as mysql_doctor
from tenure.stores.mysql.schema import migration as mysql_migration
from tenure.stores.mysql.settings import settings_of as mysql_settings
from tenure.stores.postgresql import examine as postgresql_doctor
from tenure.stores.postgresql.schema import creation, grant_for, migration
from tenure.stores.postgresql.settings import settings_of
from tenure.stores.sql.lookout import Lookout
from tenure.stores.sql.places import Places, Sightings
from tenure.stores.sql.rows import (
    COUNTER_MAX,
    EPOCH_MAX,
    Ask,
    Office,
    check_bid,
    epoch_of,
    mark_of,
    microseconds,
    packed,
)

HOLDER = Holder("ada", 7, "00ff")
TTL_NS = 10 * 10**9


def bid(serial: int = 1, election: str = "x") -> Bid:
    return Bid(election, HOLDER, serial, TTL_NS)


def test_a_token_has_room_for_every_primary_and_every_count_and_is_never_too_large() -> None:
    assert packed(EPOCH_MAX, COUNTER_MAX) == TOKEN_MAX
    assert packed(1, 1) == 1_099_511_627_777
    assert epoch_of(packed(7, 12)) == 7


def test_a_later_primary_gives_higher_tokens_whatever_it_has_counted() -> None:
    assert packed(2, 0) > packed(1, COUNTER_MAX)


def test_a_ttl_is_never_made_shorter() -> None:
    assert (microseconds(1), microseconds(1000), microseconds(1001)) == (1, 1, 2)


def test_marks_of_two_bids_are_never_part_of_each_other() -> None:
    assert mark_of(HOLDER, 1) not in mark_of(HOLDER, 11)
    assert Ask(bid(3)).mark == "00ff/3;"


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 1025, "\udcff"])
def test_a_name_that_no_row_can_hold_is_refused_before_anything_is_sent(name: str) -> None:
    with pytest.raises(Refused):
        check_bid("postgresql://h", "claim", bid(election=name))


def test_a_bid_that_was_left_is_forgotten_and_a_later_one_is_not() -> None:
    places = Places()
    first = places.enter_bid(bid(1))
    first.token = 5
    assert places.holding(Grant(bid(1), Token(5))) is first
    second = places.enter_bid(bid(2))
    assert (second.token, places.holding(Grant(bid(1), Token(5)))) == (None, None)
    assert places.standbys() == {"x": (HOLDER,)}
    places.leave(bid(1))
    assert places.find(bid(2)) is second
    places.leave(bid(2))
    assert places.find(bid(2)) is None


def test_doubts_of_earlier_bids_stay_with_the_holder_until_it_leaves() -> None:
    places = Places()
    places.enter_bid(bid(1)).in_doubt.add(1)
    assert places.enter_bid(bid(2)).in_doubt == {1}


def test_an_observer_counts_from_when_it_saw_the_row_as_it_is() -> None:
    seen, office = Sightings(), Office("x", 5, 1, HOLDER, 1, TTL_NS)
    seen.see(office, 100)
    seen.see(office, 200)
    assert seen.left_ns(office, 100 + TTL_NS) == 0
    renewed = Office("x", 5, 2, HOLDER, 1, TTL_NS)
    assert seen.left_ns(renewed, 300) == TTL_NS  # It has not been seen before.
    seen.see(renewed, 300)
    assert seen.left_ns(renewed, 301) == TTL_NS - 1
    assert seen.left_ns(Office("x", 5, 3), 0) == 0  # Nobody is in office.


def test_a_status_names_nobody_once_the_lease_is_over() -> None:
    office = Office("x", 5, 1, HOLDER, 1, TTL_NS, 1, 2, resign_asked=True)
    assert office.status((), over=False).resign_asked
    assert office.status((), over=True).incumbent is None


async def _lookout_story() -> list[str]:
    left = {"free": 0, "held": TTL_NS}
    told: list[str] = []

    looked = asyncio.Event()

    async def look(elections: list[str]) -> dict[str, int]:
        looked.set()
        return {name: left[name] for name in elections}

    lookout = Lookout(look, 0.02)

    async def wait(name: str) -> None:
        try:
            await lookout.wait(name)
            told.append(name)
        except Unreachable as error:
            told.append(error.detail)

    await wait("free")
    waiting = asyncio.create_task(wait("held"))
    looked.clear()
    await looked.wait()
    lookout.hear("other")
    lookout.hear("held")
    await waiting
    left["held"] = 0
    await wait("held")
    left["held"] = TTL_NS
    waiting = asyncio.create_task(wait("held"))
    looked.clear()
    await looked.wait()
    await lookout.end(Unreachable("s", "changed", "closed"))
    await waiting
    return told


def test_a_wait_ends_when_the_row_is_free_when_somebody_tells_of_it_and_when_the_store_closes() -> None:
    assert asyncio.run(_lookout_story()) == ["free", "held", "held", "closed"]


def test_certificates_make_a_connection_checked_unless_it_is_said_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("")
    assert settings_of(f"postgresql://u@h/d?sslrootcert={file}").mode == "verify-full"
    assert settings_of("postgresql://u@h/d").mode == "prefer"
    assert mysql_settings("mysql://u@h/d").tls is None
    with pytest.raises(ConfigError, match="sslkey"):
        settings_of(f"postgresql://u@h/d?sslkey={file}")
    with pytest.raises(ConfigError, match="leave one of both out"):
        settings_of(f"postgresql://u@h/d?sslrootcert={file}&sslmode=disable")
    with pytest.raises(ConfigError, match="several parts"):
        settings_of("postgresql://u@h/d/e")


def test_what_is_printed_makes_what_is_made_on_demand_and_grants_the_least() -> None:
    printed = migration("s", 'o"app')
    for line in creation("s").splitlines()[1:]:
        assert line in printed
    assert "DELETE" not in printed
    assert "SUPERUSER" not in printed
    assert "GRANT SELECT, UPDATE ON `d`.p_store TO 'u'@'%'" in mysql_migration("p_", "d", "u")


def test_a_refusal_that_names_nothing_we_know_is_answered_with_the_whole_migration() -> None:
    assert "tenure doctor --schema" in grant_for("permission denied for database prod", "s", "r")
    assert grant_for("permission denied for table office", "s", "r").endswith('ON s.office TO "r"')


def test_the_doctor_of_postgresql_judges_each_thing_by_itself() -> None:
    assert postgresql_doctor.judge_version("12.4").level is Level.WARNING
    assert postgresql_doctor.judge_version("17.0").level is Level.GOOD
    assert postgresql_doctor.judge_durability({"fsync": "off", "full_page_writes": "on"}).level is Level.BAD
    assert postgresql_doctor.judge_durability({"fsync": "on", "full_page_writes": "on"}).level is Level.GOOD
    assert "none" in postgresql_doctor.judge_replicas(0, "").detail
    assert "wait for a, b" in postgresql_doctor.judge_replicas(2, "a, b").detail
    assert "missed" in postgresql_doctor.judge_replicas(2, "").detail
    assert postgresql_doctor.judge_waking(Wake.POLL, 0.5).level is Level.WARNING
    judge = postgresql_doctor.judge_encryption
    assert judge(["10.0.0.1"], "prefer", encrypted=False, pooled=False).level is Level.WARNING
    assert judge(["10.0.0.1"], "require", encrypted=True, pooled=False).level is Level.WARNING
    assert judge(["10.0.0.1"], "verify-full", encrypted=True, pooled=False).level is Level.GOOD
    assert judge(["10.0.0.1"], "verify-full", encrypted=False, pooled=True).level is Level.GOOD


def test_the_doctor_of_mysql_judges_each_thing_by_itself() -> None:
    careful = {"flush": 1, "log_bin": 1, "sync_binlog": 1, "format": "ROW"}
    assert mysql_doctor.judge_durability(careful).level is Level.GOOD
    assert mysql_doctor.judge_durability({**careful, "flush": 2}).level is Level.WARNING
    assert mysql_doctor.judge_durability({**careful, "sync_binlog": 0}).level is Level.WARNING
    assert mysql_doctor.judge_format(careful) == []
    assert mysql_doctor.judge_format({**careful, "format": "STATEMENT"})[0].level is Level.BAD
    assert mysql_doctor.judge_encryption(["10.0.0.1"], "required").level is Level.WARNING
    assert mysql_doctor.judge_encryption(["10.0.0.1"], "verify_identity").level is Level.GOOD

"""The roster: what members agree on, as a value and as a document."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.apps.shards.roster import COUNT_MAX, Roster, Seated, load
from tenure.errors import ConfigError

names = st.text("abc0", min_size=1, max_size=3)
seats = st.builds(Seated, st.integers(1, 9), st.integers(0, 3), st.none() | st.integers(0, 4), st.booleans())


@st.composite
def rosters(draw: st.DrawFn) -> Roster:
    members = draw(st.dictionaries(names, seats))
    owners = tuple(draw(st.lists(st.none() | names, min_size=1, max_size=12)))
    return Roster(len(owners), members, owners)


@given(rosters())
def test_a_document_is_read_as_it_was_written(roster: Roster) -> None:
    assert load("k", roster.dump()) == roster


@pytest.mark.parametrize("document", [b"", b"\xff", b"[]", b"{}", b'{"format":1,"shards":2,"members":{},"names":[]}'])
def test_a_document_that_is_no_roster_is_refused_in_one_line(document: bytes) -> None:
    with pytest.raises(ConfigError, match="crawl/roster: is no roster of shards"):
        load("crawl/roster", document)


def test_a_roster_of_a_later_version_is_refused_and_not_misread() -> None:
    with pytest.raises(ConfigError, match="newer version"):
        load("k", b'{"format":2}')


@given(rosters(), names, seats)
def test_who_joins_changes_no_owner(roster: Roster, name: str, seated: Seated) -> None:
    assert roster.seat(name, seated).owners == roster.owners


def test_who_is_gone_is_struck_off_under_its_token_and_not_once_it_has_come_back() -> None:
    roster = Roster.empty(4).seat("a", Seated(1)).seat("b", Seated(1)).planned
    assert roster.without([("a", 1)]).owners == ("b",) * 4
    back = roster.seat("a", Seated(7))
    assert back.without([("a", 1)]) == back


def test_who_leaves_has_its_shards_until_others_are_to_own_them() -> None:
    roster = Roster.empty(4).seat("a", Seated(1)).seat("b", Seated(1)).planned
    leaving = roster.seat("a", Seated(1, leaving=True))
    assert leaving.owned_by("a") == roster.owned_by("a")
    assert not leaving.planned.owned_by("a")


def test_everybody_looks_after_the_next_and_nobody_after_itself() -> None:
    roster = Roster.empty(1).seat("a", Seated(1)).seat("b", Seated(1)).seat("c", Seated(1))
    assert [roster.after(name) for name in "abc"] == [["b", "c"], ["c", "a"], ["a", "b"]]
    assert Roster.empty(1).seat("a", Seated(1)).after("a") == []


def test_the_largest_roster_is_a_document_that_every_store_keeps() -> None:
    from tenure.stores.trail import VALUE_BYTES_MAX

    members = {f"some-host-of-a-fleet-{number}": Seated(2**63 - 1, 1000, 1000) for number in range(1000)}
    owners = tuple(list(members)[shard % 1000] for shard in range(COUNT_MAX))
    assert len(Roster(COUNT_MAX, members, owners).dump()) < VALUE_BYTES_MAX

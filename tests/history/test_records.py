"""The log: whatever order its writes come in, however often and however late, it says the same."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.apps.history.places import key_of
from tenure.apps.history.records import (
    TENURES_MAX,
    TEXT_MAX,
    Dropped,
    Log,
    Record,
    Sighting,
    dumped,
    join,
    loaded,
    merged,
)
from tenure.errors import ConfigError
from tenure.model import Holder
from tenure.office.names import NAME_BYTES_MAX, check_name
from tests.history.making import ADA, BOB, T0_S, record

_SECONDS = st.floats(0, 100, allow_nan=False).map(lambda number: round(number, 3))


@st.composite
def _tenures(draw: st.DrawFn) -> list[list[Record]]:
    """Tenures, and what the holder of each says of it over time: begun, doing so and so, ended."""
    found = []
    for token in draw(st.lists(st.integers(1, 200), unique=True, max_size=8)):
        begun = record(token, draw(st.sampled_from([ADA, BOB])), T0_S + token, elect_s=draw(st.none() | _SECONDS))
        least = draw(st.integers(1, 200))
        going = replace(
            begun,
            dropped=draw(st.none() | st.integers(least, 200).map(lambda most, least=least: Dropped(least, most))),  # type: ignore[misc]
            margin_min_s=draw(_SECONDS),
            seen_s=begun.began_s + 1,
            refused_count=draw(st.integers(0, 3)),
        )
        ended = replace(going, ended_s=begun.began_s + 2, reason="resigned", seen_s=begun.began_s + 2)
        found.append([begun, going, ended][: draw(st.integers(1, 3))])
    return found


@given(_tenures(), st.randoms())
def test_any_order_of_writes_gives_the_same_log(tenures: list[list[Record]], random: Any) -> None:
    writes = [said for tenure in tenures for said in tenure]
    shuffled = [*writes, *random.sample(writes, len(writes) // 2)]  # and some of them twice
    random.shuffle(shuffled)
    in_order, out_of_order = merged((), writes), ()  # type: tuple[Log, Log]
    for said in shuffled:
        out_of_order = loaded("jobs", dumped(merged(out_of_order, [said])))
    assert out_of_order == in_order
    assert [one.key for one in in_order] == sorted(one.key for one in in_order)


@given(_tenures())
def test_a_log_is_read_as_it_was_written(tenures: list[list[Record]]) -> None:
    log = merged((), [said for tenure in tenures for said in tenure])
    assert loaded("jobs", dumped(log)) == log


def test_a_margin_of_nothing_is_a_margin() -> None:
    log = (record(7, margin_min_s=0.0, elect_s=0.0, overstay_s=0.0),)
    assert loaded("jobs", dumped(log)) == log


def test_a_late_end_of_an_old_leader_leaves_its_successor_as_it_is() -> None:
    log = merged((), [record(7), record(8, BOB, T0_S + 10)])
    late = replace(record(7), ended_s=T0_S + 30, reason="lapsed")
    assert merged(log, [late]) == (late, record(8, BOB, T0_S + 10))


def test_two_who_were_given_one_token_are_both_kept() -> None:
    assert [one.holder for one in merged((), [record(7, BOB), record(7, ADA)])] == [str(ADA), str(BOB)]


def test_after_a_thousand_tenures_the_last_are_kept_and_what_is_older_does_not_come_back() -> None:
    log: Log = ()
    for token in range(1, 1001):
        log = merged(
            log, [record(token, ended_s=T0_S + token, reason="resigned", margin_min_s=5.961234, elect_s=0.123456)]
        )
    assert [one.token for one in log] == list(range(1001 - TENURES_MAX, 1001))
    assert len(dumped(log)) < 16 * 1024 - 600  # What a process remembers of a document, and its marks.
    assert merged(log, [record(3, refused_count=1)]) == log


def test_however_long_names_are_a_log_is_far_from_what_a_store_takes() -> None:
    long = record(1, sighting=Sighting(2**63, 1e9, 1e9), dropped=Dropped(2**63, 2**63))
    long = replace(long, holder="é" * TEXT_MAX, advertised="é" * TEXT_MAX)
    log = merged((), [replace(long, token=2**62 + number) for number in range(TENURES_MAX)])
    assert len(dumped(log)) < 256 * 1024 - 600


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b'{"format":2,"tenures":[]}',
        b'{"format":1,"tenures":[{}]}',
        b'{"format":1,"tenures":[{"t":"7","h":"a","b":1}]}',
        b'{"format":1,"tenures":[{"t":7,"h":"a","b":NaN}]}',
        b'{"format":1,"tenures":[{"t":7,"h":"a","b":Infinity}]}',
        b'{"format":1,"tenures":[{"t":7,"h":8,"b":1}]}',
        b'{"format":1,"tenures":[{"t":7,"h":"a","b":1,"w":[1]}]}',
        b'{"format":1,"tenures":[{"t":7,"h":"a","b":1,"d":[1]}]}',
        b'{"format":1,"tenures":[{"t":7,"h":"a","b":1,"d":[1,2.5]}]}',
        b'{"format":1,"tenures":[{"t":7,"h":"a","b":1,"d":"12"}]}',
        b'{"format":1,"tenures":[{"t":7,"h":"a","b":1%s}]}' % (b"0" * 400),
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_what_nobody_of_us_wrote_is_refused_in_one_line(text: bytes) -> None:
    with pytest.raises(ConfigError, match="in a form that this version does not know") as caught:
        loaded("jobs", text)
    assert "\n" not in str(caught.value)


def test_what_a_later_version_adds_is_let_through() -> None:
    found = json.loads(dumped((record(7),)))
    found["tenures"][0]["z"] = "new"
    assert loaded("jobs", json.dumps(found).encode()) == (record(7),)


def test_what_an_earlier_version_wrote_is_read_as_ever() -> None:
    text = b'{"format":1,"tenures":[{"t":7,"h":"ada/1/0","b":1790000000.0,"l":8.0,"w":[6,1.0,9.0],"e":1790000001.0,"r":"resigned"}]}'
    (found,) = loaded("jobs", text)
    assert (found.token, found.sighting, found.reason, found.dropped) == (7, Sighting(6, 1.0, 9.0), "resigned", None)
    assert dumped((found,)) == text


def test_join_takes_the_smaller_margin_and_the_larger_count() -> None:
    joined = join(record(7, margin_min_s=2.0, refused_count=1), record(7, margin_min_s=1.0, refused_count=3))
    assert (joined.margin_min_s, joined.refused_count) == (1.0, 3)


@pytest.mark.parametrize("election", ["jobs", "a/b/c", "x" * NAME_BYTES_MAX, "é" * (NAME_BYTES_MAX // 2)])
def test_every_election_has_a_key_of_its_own_that_every_store_takes(election: str) -> None:
    assert check_name(key_of(check_name(election))) != key_of(election[:-1] + "y")


def test_a_holder_with_slashes_in_its_host_is_one_holder() -> None:
    odd = Holder("a/b", 7, "f" * 16)
    assert loaded("jobs", dumped((record(1, odd),)))[0].holder == str(odd)

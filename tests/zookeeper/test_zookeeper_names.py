"""The names of our nodes stand in one order for kazoo, for both kinds of Curator, and for us."""

import re
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import Refused
from tenure.model import Bid, Holder
from tenure.stores.zookeeper.names import check_bid, check_name, contenders, is_first, misplaced, name_for, who

NUMBERS = st.integers(0, 2**31 - 1)
SERIALS = st.integers(0, 2**64 - 1)
HOLDERS = st.builds(Holder, st.text(), st.integers(0), st.text())
UUID_TEXT = "0f2e1c9a-7d3b-4f6e-8a5c-1b2d3e4f5a6b"


def ours(number: int, shown: int, holder: Holder | None = None, serial: int = 1) -> str:
    return f"{name_for(Bid('e', holder or Holder('h', 1, 'n'), serial, 1), shown)}{number:010d}"


def latchs(number: int) -> str:
    return f"_c_{UUID_TEXT}-latch-{number:010d}"


def mutexs(number: int) -> str:
    return f"_c_{UUID_TEXT}-lock-{number:010d}"


def kazoos(number: int) -> str:
    return f"{UUID(UUID_TEXT).hex}__lock__{number:010d}"


def as_curator_sorts(name: str, word: str) -> str:
    """StandardLockInternalsDriver.standardFixForSorting."""
    index = name.rfind(word)
    return name[index + len(word) :] if index >= 0 else name


def as_kazoo_sorts(name: str) -> str:
    """kazoo.recipe.lock.Lock._contenders_re."""
    match = re.search(r"(?:__lock__)(-?\d{10})$", name)
    assert match is not None
    return match[1]


@given(first=NUMBERS, second=NUMBERS)
def test_everybody_puts_two_nodes_in_the_order_of_their_numbers(first: int, second: int) -> None:
    if first == second:
        return
    earlier = first < second
    for theirs, word in ((latchs, "latch-"), (mutexs, "lock-")):
        pair = ours(first, first), theirs(second)
        assert (as_curator_sorts(pair[0], word) < as_curator_sorts(pair[1], word)) is earlier
        assert [one.name for one in contenders([*pair])] == sorted(pair, key=lambda name: int(name[-10:]))
    assert (as_kazoo_sorts(ours(first, first)) < as_kazoo_sorts(kazoos(second))) is earlier


@given(shown=NUMBERS, number=NUMBERS, theirs=NUMBERS)
def test_a_node_is_misplaced_exactly_if_a_curator_would_put_it_elsewhere(shown: int, number: int, theirs: int) -> None:
    if theirs == number:
        return  # The engine gives a number out once.
    for make, word in ((latchs, "latch-"), (mutexs, "lock-")):
        own, other = contenders([ours(number, shown)])[0], contenders([make(theirs)])[0]
        before = as_curator_sorts(own.name, word) < as_curator_sorts(other.name, word)
        wrong_now = before is not (number < theirs) and theirs != shown
        if wrong_now:
            assert misplaced(own, [other])
        if misplaced(own, [other]) and shown <= number:
            assert shown <= theirs < number


@given(shown=NUMBERS, number=NUMBERS, theirs=NUMBERS)
def test_neither_kazoos_nodes_nor_ours_make_a_node_misplaced(shown: int, number: int, theirs: int) -> None:
    if shown <= number:
        own = contenders([ours(number, shown)])[0]
        assert not misplaced(own, contenders([kazoos(theirs), ours(theirs, 0)]))


@given(holder=HOLDERS, serial=SERIALS, number=NUMBERS, shown=NUMBERS)
def test_a_name_tells_its_bid_and_its_numbers(holder: Holder, serial: int, number: int, shown: int) -> None:
    (own,) = contenders([ours(number, shown, holder, serial)])
    assert (own.number, own.shown, own.who, own.serial) == (number, shown, who(holder), serial)
    assert not own.is_curators
    UUID(own.name[3:39])  # as Curator expects it


def test_only_candidates_are_contenders() -> None:
    children = ["inner", "0000000001", "x-12", "lease-0000000003", kazoos(3), latchs(1), mutexs(2), ours(4, 4)]
    assert [one.number for one in contenders(children)] == [1, 2, 3, 4]
    assert [one.is_curators for one in contenders(children)] == [True, True, False, False]


def test_a_number_that_ran_over_is_read_as_kazoo_reads_it() -> None:
    assert contenders([f"{UUID(UUID_TEXT).hex}__lock__-2147483648"])[0].number == -(2**31)


@pytest.mark.parametrize("number", [-(2**31), -(10**9), 1 - 10**9, -1])
def test_a_negative_number_is_read_however_many_digits_it_has(number: int) -> None:
    """Java's %010d counts the sign among the ten places."""
    names = [make(number) for make in (latchs, mutexs, kazoos)] + [ours(number, number)]
    assert [one.number for one in contenders(names)] == [number] * 4
    assert [one.shown for one in contenders(names)] == [None, None, None, number]


def test_digits_that_are_not_the_engines_are_no_number() -> None:
    theirs = f"{UUID(UUID_TEXT).hex}__lock__" + "\N{ARABIC-INDIC DIGIT ZERO}" * 10
    assert contenders([theirs]) == []
    assert is_first(ours(5, 5), [theirs, ours(5, 5)])


FEW_NUMBERS = st.sampled_from([-(2**31), -(10**9), -12, 0, 1, 2, 3, 2**31 - 1])
FEW_HOLDERS = st.sampled_from([Holder("h", 1, "n"), Holder("i", 1, "n"), Holder("j", 1, "n")])
NAMES = st.one_of(
    st.builds(latchs, FEW_NUMBERS),
    st.builds(mutexs, FEW_NUMBERS),
    st.builds(kazoos, FEW_NUMBERS),
    st.builds(ours, FEW_NUMBERS, st.just(0), FEW_HOLDERS),
    st.sampled_from(["inner", "0000000001", "~"]),
)


@given(own=st.builds(ours, FEW_NUMBERS, st.just(0)), others=st.lists(NAMES, max_size=4), there=st.booleans())
def test_who_is_first_at_a_glance_is_first_by_every_number(own: str, others: list[str], there: bool) -> None:
    mine = contenders([own])[0]
    rest = [one for one in contenders(others) if one.name != own]
    if is_first(own, others + [own] * there):
        assert there or own in others
        assert 0 <= mine.number <= min((one.number for one in rest), default=mine.number)
        assert all(one.number >= 0 and one.who != mine.who for one in rest)


@given(number=NUMBERS, later=st.lists(NUMBERS))
def test_the_first_of_ours_and_kazoos_is_known_at_a_glance(number: int, later: list[int]) -> None:
    own, holder = ours(number, number), Holder("i", 1, "n")
    behind = [make(one) for one in later if one > number for make in (kazoos, lambda one: ours(one, one, holder))]
    assert is_first(own, [*behind, own])
    assert not is_first(own, behind)
    assert not is_first(own, [own, *behind, ours(number, number, serial=2)])


@pytest.mark.parametrize(
    "name", ["", "a//b", ".", "a/..", "zookeeper", "zookeeper/x", "x/y__lock__0000000001", "\udc80"]
)
def test_a_name_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(Refused):
        check_name("zookeeper://h", "claim", name, "")


def test_the_path_of_an_election_is_its_name_below_the_chroot() -> None:
    assert check_name("zookeeper://h", "claim", "a/b", "") == "/a/b"
    assert check_name("zookeeper://h", "claim", "zookeeper", "/c") == "/c/zookeeper"


@pytest.mark.parametrize(
    ("holder", "serial", "advertise"),
    [(Holder("h", 1, "n"), 2**64, ""), (Holder("h\udc80", 1, "n"), 1, ""), (Holder("h", 1, "n"), 1, "\udc80")],
)
def test_a_bid_that_cannot_be_written_down_is_refused(holder: Holder, serial: int, advertise: str) -> None:
    check_bid("zookeeper://h", "claim", Bid("e", Holder("h", 1, "n"), 2**64 - 1, 1, "http://ä"))
    with pytest.raises(Refused):
        check_bid("zookeeper://h", "claim", Bid("e", holder, serial, 1, advertise))

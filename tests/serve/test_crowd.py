"""Whose connection goes when there is no room for one more."""

from hypothesis import example, given
from hypothesis import strategies as st

from tenure.serve.crowd import CANDIDACIES_MAX, FILES, OTHERS_MAX, TOKEN_MAX, Crowd, room
from tenure.serve.hub import CLIENTS_MAX


def full(others_max: int = 3, token_max: int = 2) -> Crowd[str]:
    crowd = Crowd[str](others_max, token_max)
    for one in "abc"[:others_max]:
        assert crowd.came(one) is None
    return crowd


def test_the_one_that_has_waited_longest_makes_room() -> None:
    crowd = full()
    assert crowd.came("d") == "a"
    assert crowd.came("e") == "b"
    assert len(crowd) == 3


def test_who_is_being_answered_stays_while_another_only_waits() -> None:
    crowd = full()
    crowd.is_answered("a")
    assert crowd.came("d") == "b"
    crowd.was_answered("a")  # It waits since now, which is for less long than the others.
    assert crowd.came("e") == "c"


def test_who_sends_half_of_a_request_gains_nothing_by_it() -> None:
    crowd = full()
    crowd.was_answered("a")
    assert crowd.came("d") == "a"


def test_who_waits_for_the_engine_makes_room_as_who_waits_for_nothing_and_not_who_came_after_it() -> None:
    crowd = full()
    for one in "abc":
        crowd.is_answered(one)
    crowd.waits("a")
    crowd.waits("b")
    assert [crowd.came("heartbeat"), crowd.came("d")] == ["a", "b"]


def test_who_has_shown_the_token_stays_while_it_waits_for_the_engine() -> None:
    crowd = full()
    for one in "ab":
        crowd.is_answered(one)
        crowd.showed_token(one)
        crowd.waits(one)
    crowd.is_answered("c")
    assert crowd.showed_token("c") is None
    assert len(crowd) == 3


def test_if_all_are_being_answered_the_first_of_them_makes_room_and_nobody_who_comes_is_refused() -> None:
    crowd = full(3)
    for one in "abc":
        crowd.is_answered(one)
    assert crowd.came("d") == "a"
    assert crowd.came("e") == "d"


def test_nobody_without_the_token_takes_the_place_of_who_has_it() -> None:
    crowd = full()
    crowd.is_answered("a")
    assert crowd.showed_token("a") is None
    crowd.was_answered("a")
    gone = [crowd.came(f"stranger {number}") for number in range(100)]
    assert "a" not in gone
    assert len(crowd) == 4
    crowd.gone("a")
    assert len(crowd) == 3


def test_who_has_the_token_is_bounded_as_well() -> None:
    crowd = full()
    assert [crowd.showed_token(one) for one in "abc"] == [None, None, "a"]
    assert crowd.showed_token("b") is None


def test_the_stream_of_a_leader_is_not_closed_for_another_who_has_the_token() -> None:
    crowd = full()
    for one in "ab":
        crowd.is_answered(one)
        crowd.showed_token(one)
    assert crowd.showed_token("c") is None
    assert crowd.came("d") is None
    assert crowd.came("e") is None
    assert crowd.came("f") == "d", (
        "one of the others, of whom one less has room while the third with the token is there"
    )


def leading(count: int) -> Crowd[str]:
    """As many streams with the token, one after the other, where two have places of their own."""
    crowd = Crowd[str](3, 2)
    for number in range(count):
        assert crowd.came(f"leader {number}") is None
        crowd.is_answered(f"leader {number}")
        assert crowd.showed_token(f"leader {number}") is None
    return crowd


def test_the_stream_of_a_leader_is_closed_for_nobody_however_many_there_are() -> None:
    crowd = leading(5)
    assert [crowd.came(one) for one in "xy"] == ["x", "y"], "nobody else can go, so who comes does"
    assert len(crowd) == 5
    crowd.gone("leader 0")  # It has one of the places for the token, and the others have one of theirs again.
    assert crowd.came("z") is None
    crowd.is_answered("z")
    assert crowd.came("w") == "z"


def test_who_sits_on_a_place_of_the_others_with_the_token_goes_when_it_was_answered_and_all_of_them_are_being() -> None:
    crowd = leading(4)
    crowd.was_answered("leader 1")
    assert crowd.came("x") is None
    assert crowd.came("y") == "x", "who has shown nothing waits as well"
    crowd.is_answered("y")
    assert crowd.came("z") == "leader 1"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["came", "is_answered showed_token", "is_answered", "waits", "was_answered", "showed_token", "gone"]
            ),
            st.integers(0, 9),
        )
    )
)
def test_whatever_happens_who_has_shown_the_token_and_is_being_answered_is_closed_for_nobody(
    steps: list[tuple[str, int]],
) -> None:
    crowd, there, known, busy = Crowd[int](2, 1), set[int](), set[int](), set[int]()
    for whats, one in steps:
        for what in whats.split() if one in there else ["came", *whats.split()]:
            if what == "came" and one in there:
                continue
            going = getattr(crowd, what)(one)
            assert going not in known & busy
            there |= {one}
            known |= {one} if what == "showed_token" else set()
            ends = what == "was_answered" or (what == "waits" and one not in known)
            busy = busy | {one} if what == "is_answered" else busy - {one} if ends else busy
            left = {going} | ({one} if what == "gone" else set())
            there, known, busy = there - left, known - left, busy - left
            if one in left:
                break


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["came", "showed_token", "is_answered", "waits", "was_answered", "gone"]), st.integers(0, 9)
    )
)


@given(STEPS)
@example([("came", number) for number in range(4)])  # Who goes may be a zero.
def test_there_are_never_more_than_there_may_be_and_who_is_gone_is_forgotten(steps: list[tuple[str, int]]) -> None:
    crowd, there = Crowd[int](3, 2), set[int]()
    for what, one in steps:
        if what == "came" and one in there:
            continue
        if what == "came":
            there.add(one)
        elif one not in there:
            continue
        elif what == "gone":
            there.discard(one)
        going = getattr(crowd, what)(one)
        if going is not None:
            there.discard(going)
        assert len(crowd) == len(there) <= 5


@given(st.integers(64, 2 * FILES))
def test_there_is_a_file_for_everybody_and_what_comes_at_once_takes_the_place_of_no_heartbeat(files: int) -> None:
    found = room(files)
    assert found.others_max + found.token_max + 3 * found.backlog <= files - min(256, files // 2)
    assert found.listeners_max + 2 * found.backlog <= found.others_max
    assert 1 <= found.candidacies_max <= found.token_max, "the stream of each has a place that nobody takes"


def test_a_system_that_allows_few_files_has_room_for_some_leaders_and_for_those_who_ask() -> None:
    assert min(room(1024)[:2]) > 100
    assert min(room(64)) > 1
    most = room(FILES)
    assert (most.others_max, most.token_max, most.listeners_max) == (OTHERS_MAX, TOKEN_MAX, CLIENTS_MAX)
    assert most.candidacies_max == CANDIDACIES_MAX
    assert room(10**6) == most

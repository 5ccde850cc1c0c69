"""What any thread reads of an office while the one that steps its candidate takes it in and out of a cohort."""

from types import SimpleNamespace
from typing import Any

from tests.unit.test_cohort import bid

from tenure.core.held import Held
from tenure.model import Grant, Token


def test_who_reads_while_its_own_thread_takes_it_out_does_not_see_what_the_cohort_had_afterwards() -> None:
    class Switching:
        """A cohort in which another thread comes to run while its validity is read."""

        round_count = 0

        def __init__(self) -> None:
            self.then: Any = lambda: None
            self.until = 100

        @property
        def valid_until(self) -> int:
            then, self.then = self.then, lambda: None
            then()
            return self.until

        def least_margin_ns(self, _: int) -> int | None:
            return None

    cohort: Any = Switching()
    held = Held(Grant(bid(1), Token(1)), 100)
    assert held.join(cohort)

    def leave_and_prolong() -> None:
        held.leave()
        cohort.until = 200

    cohort.then = leave_and_prolong
    assert held.valid_until == 100

    back = Held(Grant(bid(1), Token(1)), 200)
    assert back.join(cohort)

    def leave_prolong_and_come_back() -> None:
        back.leave()
        cohort.until = 300
        back.valid_until = 300
        assert back.join(cohort)

    cohort.then = leave_prolong_and_come_back
    assert back.valid_until == 300  # Which it was entitled to before the reading ended.


def test_between_any_two_writes_of_who_leaves_a_reader_sees_what_the_cohort_had() -> None:
    seen: list[int] = []

    class Watched(Held):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if watching:
                seen.append(self.valid_until)

    watching = False
    held = Watched(Grant(bid(1), Token(1)), 100)
    cohort: Any = SimpleNamespace(valid_until=100, round_count=0, least_margin_ns=lambda _: None)
    assert held.join(cohort)
    cohort.valid_until = 200
    watching = True
    held.leave()
    assert set(seen) == {200}
    assert held.valid_until == 200


def test_who_joins_while_its_margin_is_read_is_not_told_of_margins_before_its_time() -> None:
    class Joining(Held):
        """Joins at the first look at after how many rounds it did."""

        def __getattribute__(self, name: str) -> Any:
            value = super().__getattribute__(name)
            if name == "_joined" and cohort is not None and not joined:
                joined.append(True)
                assert self.join(cohort)
            return value

    joined: list[bool] = []
    cohort: Any = None
    held = Joining(Grant(bid(1), Token(1)), 100)
    asked: list[int] = []
    cohort = SimpleNamespace(valid_until=100, round_count=7, least_margin_ns=asked.append)
    assert held.margin_ns is None
    assert joined
    assert set(asked) <= {7}

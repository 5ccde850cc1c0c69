"""Which run begins next: as many at once as may be, in the order of their times, and a bounded number waits."""

from typing import Any

from tenure.apps.cron.jobs import Job, Key
from tenure.apps.cron.queue import Begin, GiveUp, Queue, Waiting
from tenure.apps.cron.schedule import Every


def queue(room: int = 10, **settings: Any) -> Queue:
    names = ("a", "b")
    return Queue({name: Job(name, Every(1000), ("true",), **settings) for name in names}, room)


def add(queue: Queue, *keys: tuple[str, int]) -> None:
    for job, at_ms in keys:
        queue.add(Waiting(Key(job, at_ms), at_ms))


def begun(queue: Queue, now_ms: int) -> list[tuple[str, int]]:
    decisions = list(queue.ready(now_ms))
    assert all(isinstance(decision, Begin) for decision in decisions), decisions
    return [(decision.run.key.job, decision.run.key.scheduled_ms) for decision in decisions]


def test_a_run_begins_when_its_time_has_come_and_there_is_room() -> None:
    runs = queue(room=1)
    add(runs, ("b", 2), ("a", 1))
    assert begun(runs, 0) == []
    assert begun(runs, 5) == [("a", 1)]
    assert runs.wake_at_ms is None
    runs.released(Key("a", 1))
    assert begun(runs, 5) == [("b", 2)]


def test_a_run_that_is_known_is_not_added_again_and_that_of_an_unknown_job_never() -> None:
    runs = queue(overlap="allow")
    add(runs, ("a", 1), ("a", 1), ("stranger", 1))
    assert begun(runs, 5) == [("a", 1)]
    add(runs, ("a", 1))
    assert begun(runs, 5) == []


def test_runs_of_one_job_wait_for_each_other() -> None:
    runs = queue(overlap="wait")
    add(runs, ("a", 1), ("a", 2), ("b", 3))
    assert begun(runs, 5) == [("a", 1), ("b", 3)]
    runs.released(Key("a", 1))
    assert begun(runs, 5) == [("a", 2)]


def test_runs_of_one_job_run_beside_each_other_up_to_its_own_limit() -> None:
    runs = queue(overlap="allow", max_parallel=2)
    add(runs, ("a", 1), ("a", 2), ("a", 3), ("b", 4))
    assert begun(runs, 5) == [("a", 1), ("a", 2), ("b", 4)]
    runs.released(Key("a", 2))
    assert begun(runs, 5) == [("a", 3)]


def test_a_run_is_skipped_while_another_of_its_job_is_under_way() -> None:
    runs = queue(overlap="skip")
    add(runs, ("a", 1), ("a", 2))
    first, second = runs.ready(5)
    assert isinstance(first, Begin)
    assert isinstance(second, GiveUp)
    assert second.run.key == Key("a", 2)


def test_of_those_that_wait_the_oldest_is_given_up_when_there_are_too_many() -> None:
    runs = queue(overlap="wait", catch_up_limit=2)
    add(runs, *(("a", at_ms) for at_ms in range(1, 5)))
    decisions = list(runs.ready(9))
    assert [type(decision) for decision in decisions] == [Begin, GiveUp]
    assert decisions[1].run.key == Key("a", 2)
    runs.released(Key("a", 1))
    assert begun(runs, 9) == [("a", 3)]


def test_a_run_that_is_begun_again_waits_for_its_pause() -> None:
    runs = queue()
    add(runs, ("a", 1))
    assert begun(runs, 1) == [("a", 1)]
    runs.released(Key("a", 1), Waiting(Key("a", 1), 50, attempt=1))
    assert begun(runs, 49) == []
    assert runs.wake_at_ms == 50
    assert begun(runs, 50) == [("a", 1)]

"""What is said about each way to elect, as counts over fixed seeds: of every fault by itself, with a fence and without."""

from collections import Counter

import pytest

from tenure.errors import ConfigError
from tenure.lab.approaches.arena import APPROACHES, find, play
from tenure.lab.approaches.cast import CHOICES, COLUMNS, plan_of
from tenure.lab.approaches.checkers import CHECKERS
from tenure.lab.approaches.counting import PARTED, count, faults_of, verdicts
from tenure.lab.approaches.parting import BOTH, MAJORITY, NOBODY, OTHER
from tenure.lab.approaches.sink import FENCES, OF_SINK, OFF, OWN

SEEDS = range(100)
FAULTS = [column for column in COLUMNS if column != "none"]


def counted(approach: str, fault: str, seeds: range = SEEDS) -> Counter[tuple[str, str]]:
    (cell,) = count([approach], [fault], seeds, jobs=1)
    return cell.counts


@pytest.mark.parametrize("approach", APPROACHES)
def test_without_faults_every_approach_works(approach: str) -> None:
    assert counted(approach, "none") == Counter()


def test_bully_has_two_leaders_under_a_partition_and_a_fence_saves_the_sink() -> None:
    found = counted("bully", "partition")
    assert found[OFF, "exclusion"] > 0
    assert found[OFF, "stale"] > 0
    assert found[OWN, "stale"] == found[OF_SINK, "stale"] == 0


@pytest.mark.parametrize("fault", ["pause", "failover", "jump"])
@pytest.mark.parametrize("approach", ["setnx", "setnx-replica", "redlock"])
def test_locks_of_redis_lose_exclusion_and_a_number_of_the_sink_saves_it(approach: str, fault: str) -> None:
    found = counted(approach, fault)
    assert found[OFF, "exclusion"] > 0
    assert found[OF_SINK, "stale"] == 0
    assert found[OFF, "stuck"] == found[OWN, "stuck"] == found[OF_SINK, "stuck"] == 0


@pytest.mark.parametrize("fault", ["pause", "jump"])
@pytest.mark.parametrize("approach", ["setnx", "setnx-replica", "redlock"])
def test_locks_of_redis_lose_exclusion_and_their_own_number_saves_the_sink(approach: str, fault: str) -> None:
    found = counted(approach, fault)
    assert found[OFF, "exclusion"] > 0
    assert found[OWN, "stale"] == found[OWN, "twice"] == 0


@pytest.mark.parametrize("approach", ["setnx", "setnx-replica", "redlock"])
def test_a_paused_holder_of_a_lock_writes_after_its_successor(approach: str) -> None:
    assert counted(approach, "pause")[OFF, "stale"] > 0


def test_redlock_is_broken_by_clocks_that_are_set_and_its_number_saves_the_sink() -> None:
    found = counted("redlock", "jump", range(20, 120))
    assert found[OFF, "exclusion"] > found[OFF, "stale"] > 0
    assert found[OWN, "stale"] == 0


def test_a_number_that_a_replica_had_not_heard_of_is_given_out_again_and_fences_nobody() -> None:
    """The number of a lock is worth no more than the store that counts it: adr/0019."""
    found = counted("setnx-replica", "partition")
    assert found[OWN, "stale"] > 0
    assert found[OF_SINK, "stale"] == 0


def test_a_flag_is_never_taken_by_two_and_after_a_crash_by_nobody() -> None:
    found = counted("flag", "crash")
    assert found[OFF, "stuck"] > 0
    assert found[OFF, "exclusion"] == found[OFF, "twice"] == 0


def test_a_flag_that_is_cleared_when_it_is_old_recovers_and_runs_twice() -> None:
    assert counted("flag-cron", "crash")[OFF, "stuck"] == 0
    found = counted("flag-cron", "pause")
    assert found[OFF, "exclusion"] > 0
    assert found[OFF, "twice"] > 0
    assert found[OWN, "twice"] == found[OWN, "stale"] == 0


@pytest.mark.parametrize("fault", ["partition", "pause"])
def test_rafts_leader_overlaps_with_its_successor_and_its_term_is_a_fence(fault: str) -> None:
    found = counted("raft", fault)
    assert found[OFF, "exclusion"] > 0
    assert found[OFF, "stale"] > 0
    assert found[OWN, "stale"] == found[OF_SINK, "stale"] == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_tenure_accepts_no_stale_write_through_its_fence_and_always_recovers(fault: str) -> None:
    found = counted("tenure", fault)
    assert found[OWN, "stale"] == found[OWN, "twice"] == found[OF_SINK, "stale"] == 0
    assert [found[fence, "stuck"] for fence in FENCES] == [0, 0, 0]
    assert fault == "pause" or found[OFF, "exclusion"] == 0


def test_nobody_can_keep_a_paused_leader_from_overlapping_with_its_successor() -> None:
    """Exactly one is impossible: ours is no exception, and says so."""
    found = counted("tenure", "pause")
    assert found[OFF, "exclusion"] > 0
    assert found[OFF, "stale"] > 0


@pytest.mark.parametrize("approach", [name for name in APPROACHES if name != "flag"])
def test_a_crash_lets_work_be_begun_twice_whatever_elects(approach: str) -> None:
    found = counted(approach, "crash")
    assert found[OWN, "redone"] > 0
    assert found[OWN, "twice"] == 0


def test_all_faults_at_once_do_not_get_through_our_fence() -> None:
    together = "+".join(fault for fault in CHOICES if fault != "duplicate")
    found = counted("tenure", together)
    assert found[OFF, "stale"] > 0
    assert found[OWN, "stale"] == found[OWN, "stuck"] == 0


def test_a_write_that_comes_twice_counts_twice_and_no_fence_helps() -> None:
    """A fence says who, not how often: that needs a key of the task. (At-least-once is the network's, too.)"""
    found = counted("tenure", "duplicate")
    assert found[OWN, "twice"] > 0
    assert found[OWN, "stale"] == 0


@pytest.mark.parametrize(
    ("approach", "always", "never"),
    [
        ("bully", BOTH, (MAJORITY, OTHER, NOBODY)),
        ("setnx", MAJORITY, (BOTH, OTHER, NOBODY)),
        ("flag-cron", MAJORITY, (BOTH, OTHER, NOBODY)),
        ("tenure", MAJORITY, (BOTH, OTHER, NOBODY)),
    ],
)
def test_who_answers_during_a_partition(approach: str, always: str, never: tuple[str, ...]) -> None:
    found = counted(approach, PARTED)
    assert found["", always] == len(SEEDS)
    assert not any(found["", side] for side in never)


@pytest.mark.parametrize("approach", ["raft", "setnx-replica"])
def test_both_sides_of_a_partition_answer_at_times(approach: str) -> None:
    """A Raft leader that is cut off goes on believing; a replica is promoted while its primary goes on."""
    found = counted(approach, PARTED)
    assert found["", BOTH] > 0
    assert found["", MAJORITY] > 0
    assert found["", OTHER] == 0


@pytest.mark.parametrize("approach", APPROACHES)
def test_a_seed_replays_to_the_last_bit(approach: str) -> None:
    faults = [fault for fault in CHOICES if fault != "one-way"]
    for seed in range(5):
        assert play(find(approach), seed, faults).history == play(find(approach), seed, faults).history


@pytest.mark.parametrize("approach", APPROACHES)
def test_a_fence_that_would_refuse_nothing_changes_nothing(approach: str) -> None:
    """That is why such a run is not played again for each fence."""
    same = 0
    for seed in range(30):
        bare = play(find(approach), seed, ("pause",))
        for fence in {OWN, OF_SINK} - bare.would_refuse:
            same += 1
            assert play(find(approach), seed, ("pause",), fence).history == bare.history
    assert same > 0


def test_every_approach_is_struck_by_the_very_same_faults() -> None:
    for column in COLUMNS:
        plans = {play(approach, 7, faults_of(column)).plan for approach in APPROACHES.values()}
        assert plans == {plan_of(7, faults_of(column))}


def test_faults_leave_each_other_as_they_were() -> None:
    together = plan_of(11, ("pause", "failover", "jump"))
    for fault in ("pause", "failover", "jump"):
        assert set(plan_of(11, (fault,)).strikes) <= set(together.strikes)


def test_many_cores_count_as_one_does() -> None:
    rows, columns = ["setnx", "tenure"], ["pause", PARTED]
    assert list(count(rows, columns, range(120), jobs=2)) == list(count(rows, columns, range(120), jobs=1))


def test_verdicts_have_every_fence() -> None:
    found = verdicts(find("bully"), 0, ("partition",))
    assert list(found) == list(FENCES)
    assert {violation.checker for violation in found[OFF]} <= set(CHECKERS)


def test_there_is_no_other_approach() -> None:
    with pytest.raises(ConfigError, match="must be one of bully, flag"):
        find("paxos")

"""The world of the laboratory by itself: time, clocks, the network and each kind of fault, with nodes that only listen."""

from typing import Any

import pytest

from tenure.errors import ConfigError
from tenure.lab.faults import FAULTS, MS, Plan, Strike, draw
from tenure.lab.world import NEVER, Node, World


class Listener(Node):
    """Writes down what it hears and when it was woken, by its own clock."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.heard: list[tuple[int, Any]] = []
        self.rang: list[int] = []

    def received(self, source: int, message: Any) -> None:  # noqa: ARG002
        self.heard.append((self.world.now, message))

    def woken(self) -> None:
        self.rang.append(self.clock())


def world_of(plan: Plan) -> tuple[World, list[Listener]]:
    world = World(plan, Listener)
    world.run(until=0)
    return world, [node for node in world.nodes if isinstance(node, Listener)]


def quiet(**changes: Any) -> Plan:
    return Plan(seed=1, nodes=3, delay_min_ns=MS, delay_max_ns=MS, **changes)


def test_a_message_takes_the_time_that_the_plan_says() -> None:
    world, nodes = world_of(quiet())
    nodes[0].send(1, "hello")
    nodes[0].send(1, "held", hold_ns=5 * MS)
    world.run(until=10 * MS)
    assert nodes[1].heard == [(MS, "hello"), (6 * MS, "held")]


def test_messages_overtake_each_other_are_lost_and_come_twice() -> None:
    plan = Plan(seed=1, nodes=2, loss=0.2, spike=0.3, spike_max_ns=90 * MS, duplicate=0.2, heal_at=900 * MS)
    world, nodes = world_of(plan)
    for number in range(200):
        world.at(number * MS, nodes[0].send, 1, number)
    world.run(until=600 * MS)
    came = [number for _, number in nodes[1].heard]
    assert came != sorted(came)
    assert len(set(came)) < 200
    assert len(set(came)) < len(came)


def test_a_cut_is_symmetric_or_one_way_and_overlapping_ones_heal_one_by_one() -> None:
    world, nodes = world_of(quiet())
    both, mute = world.cut([0]), world.cut([0, 1], one_way=True)
    nodes[0].send(1, "to a neighbour in one cut, cut off by the other")
    nodes[2].send(1, "towards those who are only mute")
    world.run(until=2 * MS)
    assert [message for _, message in nodes[1].heard] == ["towards those who are only mute"]
    world.mend(both)
    nodes[0].send(1, "again")
    nodes[0].send(2, "still mute")
    world.run(until=4 * MS)
    assert nodes[1].heard[-1][1] == "again"
    assert nodes[2].heard == []
    world.mend(mute)
    nodes[0].send(2, "whole")
    world.run(until=6 * MS)
    assert [message for _, message in nodes[2].heard] == ["whole"]


def test_a_crash_keeps_the_disk_and_nothing_else_and_timers_of_an_earlier_life_do_not_ring() -> None:
    world, (node, *_) = world_of(quiet())
    node.disk["term"] = 7
    node.wake_at(5 * MS)
    node.after(5 * MS, node.rang.append, -1)
    node.crash()
    world.nodes[1].send(0, "to nobody")
    world.run(until=3 * MS)
    node.start()
    world.run(until=9 * MS)
    assert (node.disk, node.life, node.heard, node.rang) == ({"term": 7}, 2, [], [])


def test_a_paused_node_gets_everything_at_once_and_its_alarm_last() -> None:
    world, (node, other, _) = world_of(quiet())
    node.wake_at(5 * MS)
    node.pause()
    other.send(0, "while it slept")
    node.after(4 * MS, node.heard.append, (0, "a timer"))
    world.at(20 * MS, node.resume)
    world.run(until=30 * MS)
    assert [message for _, message in node.heard] == ["while it slept", "a timer"]
    assert node.heard[0][0] == node.rang[0] == 20 * MS


def test_an_alarm_that_is_put_off_rings_once_and_one_that_is_put_forward_rings_sooner() -> None:
    world, (node, *_) = world_of(quiet())
    node.wake_at(5 * MS)
    node.wake_at(9 * MS)
    world.run(until=8 * MS)
    assert node.rang == []
    world.run(until=20 * MS)
    node.wake_at(40 * MS)
    node.wake_at(30 * MS)
    world.run(until=50 * MS)
    assert node.rang == [9 * MS, 30 * MS]
    node.wake_at(NEVER)
    world.run(until=99 * MS)
    assert len(node.rang) == 2


def test_a_clock_that_drifts_or_jumps_takes_its_alarms_along() -> None:
    world, nodes = world_of(quiet(clock_ppm=(500_000, -500_000, 0)))
    for node in nodes:
        node.wake_at(30 * MS)
    nodes[2].set_clock(by_ns=-10 * MS)
    world.run(until=20 * MS)
    assert nodes[0].rang == [30 * MS]
    world.run(until=40 * MS)
    assert nodes[2].rang == [30 * MS]
    assert nodes[1].rang == []
    nodes[1].set_clock(by_ns=10 * MS)
    world.run(until=40 * MS)
    assert nodes[1].rang == [30 * MS]


def test_after_healing_nothing_fails_and_what_was_held_back_is_lost() -> None:
    strikes = (
        Strike(0, "crash", 0, 50 * MS),
        Strike(0, "pause", 1, 50 * MS),
        Strike(MS, "partition", 0, 90 * MS, 0b011),
    )
    plan = quiet(loss=1.0, strikes=strikes, heal_at=10 * MS)
    world, nodes = world_of(plan)
    world.run(until=11 * MS)
    assert all(node.up and not node.paused for node in nodes)
    for target in (0, 1):
        nodes[2].send(target, "now")
    world.run(until=13 * MS)
    assert [nodes[0].heard, nodes[1].heard] == [[(12 * MS, "now")]] * 2


def test_one_fault_alone_is_the_same_as_among_others() -> None:
    seed = next(seed for seed in range(99) if any(strike.kind == "pause" for strike in draw(seed, 5, 100 * MS).strikes))
    alone = draw(seed, 5, 100 * MS, only={"pause"}).strikes
    assert alone == tuple(strike for strike in draw(seed, 5, 100 * MS).strikes if strike.kind == "pause")
    assert "pause" not in {strike.kind for strike in draw(seed, 5, 100 * MS, without={"pause"}).strikes}


def test_every_kind_of_fault_is_drawn_in_some_seed_and_told_in_words() -> None:
    plans = [draw(seed, 5, 100 * MS) for seed in range(60)]
    kinds = {strike.kind for plan in plans for strike in plan.strikes}
    assert kinds | {"loss", "delay", "duplicate", "drift"} == set(FAULTS)
    assert any(plan.loss for plan in plans)
    assert any(plan.duplicate for plan in plans)
    assert any(plan.clock_ppm for plan in plans)
    assert all(plan.show() for plan in plans)


@pytest.mark.parametrize("asked", [{"seed": -1}, {"seed": 2**63}, {"only": {"rain"}}, {"without": {"rain"}}])
def test_what_cannot_be_drawn_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        draw(asked.pop("seed", 1), 5, 100 * MS, **asked)

"""What is planned of false failovers is what the machine does: the same pauses and answers, given to the machine itself."""

import math
import random
from collections.abc import Iterator

import pytest

from tenure.plan.delays import DAY_S, SeenPauses, Tail, Ways
from tenure.plan.rate import lost_by_answers, lost_by_outages, lost_by_pauses, needed_s, stop_after_s
from tenure.timing import Timing
from tests.plan.leading import Leader

TIMINGS = {
    "as shipped": Timing.of(),
    "one miss": Timing.of(heartbeat=1, misses=1, attempt_timeout=0.4, grace=0.2),
    "five misses": Timing.of(heartbeat=0.5, misses=5),
    "a long lease": Timing.of(ttl=15, heartbeat=2),
    "as client-go": Timing.of_client_go(),
}
# Beyond 64 heartbeats it is no longer followed when each attempt is made.
MANY = {"twenty misses": Timing.of(heartbeat=0.5, misses=20), "a hundred misses": Timing.of(heartbeat=0.1, misses=100)}


@pytest.mark.parametrize("name", TIMINGS)
@pytest.mark.parametrize("trip_s", [0.0005, 0.1])
def test_a_pause_costs_the_office_iff_it_is_as_long_as_is_needed(name: str, trip_s: float) -> None:
    timing, lots = TIMINGS[name], random.Random(name)
    heartbeat_ns, trip_ns = timing.renew_every_ns, round(trip_s * 1e9)
    lost_count = 0
    for _ in range(150):
        leader = Leader(timing, lambda _: trip_ns, lots)
        leader.run(leader.now + 5 * heartbeat_ns + 1)  # The last renewal was sent a nanosecond ago.
        since_ns = lots.choice([lots.randrange(heartbeat_ns), lots.randrange(1, trip_ns)])
        least_ns = round(needed_s(timing, trip_s, since_ns / 1e9) * 1e9)
        pause_ns = max(1, least_ns + lots.choice([-1, 1]) * lots.randrange(2000, 2 * heartbeat_ns))
        begins = leader.sent_at + since_ns
        leader.run(begins + pause_ns + 3 * timing.ttl_ns, iter([(begins, begins + pause_ns)]))
        assert bool(leader.lost_at) == (pause_ns >= least_ns), (since_ns, pause_ns, least_ns)
        lost_count += bool(leader.lost_at)
    assert 20 < lost_count < 130, "both outcomes were tried"


def poisson(per_day: float, draw_s: Iterator[float], lots: random.Random, from_ns: int) -> Iterator[tuple[int, int]]:
    at_s = from_ns / 1e9
    while True:
        at_s += lots.expovariate(per_day / DAY_S)
        pause_s = next(draw_s)
        yield int(at_s * 1e9), int((at_s + pause_s) * 1e9)
        at_s += pause_s


@pytest.mark.parametrize("name", ["as shipped", "five misses"])
def test_pauses_that_come_at_any_time_cost_as_many_offices_as_planned(name: str) -> None:
    timing, lots, trip_s = TIMINGS[name], random.Random(20261117), 0.02
    mean_s = timing.ttl_ns / 1e9 / 4
    per_day, days = DAY_S / (60 * mean_s), mean_s
    pauses = Tail(0.0, per_day, mean_s)
    draws = iter(lambda: lots.expovariate(1 / mean_s), None)

    class Planned:
        def per_day(self, longer_than_s: float) -> float:
            return pauses.beyond(longer_than_s)

    leader = Leader(timing, lambda _: round(trip_s * 1e9), lots)
    from_ns = leader.now
    leader.run(from_ns + int(days * DAY_S * 1e9), poisson(per_day, draws, lots, from_ns))
    planned = lost_by_pauses(timing, Planned(), trip_s) * days
    assert planned > 40
    # Poisson, so the deviation is the square root; and some hundredths of the time a pause leaves no room for a second one.
    assert len(leader.lost_at) == pytest.approx(planned, abs=4 * math.sqrt(planned) + 0.04 * planned)


def test_a_log_of_pauses_is_replayed_as_planned() -> None:
    timing, lots, trip_s = TIMINGS["as shipped"], random.Random(7), 0.01
    seen_s = sorted(lots.uniform(0.1, 9.0) for _ in range(200))
    over_s = 200 * 100.0
    draws = iter(lambda: lots.choice(seen_s), None)
    leader = Leader(timing, lambda _: round(trip_s * 1e9), lots)
    from_ns, days = leader.now, 2.0
    leader.run(from_ns + int(days * DAY_S * 1e9), poisson(DAY_S / over_s * 200, draws, lots, from_ns))
    planned = lost_by_pauses(timing, SeenPauses(seen_s, over_s), trip_s) * days
    assert len(leader.lost_at) == pytest.approx(planned, abs=4 * math.sqrt(planned) + 0.06 * planned)


@pytest.mark.parametrize("name", ["as shipped", "five misses", "as client-go"])
def test_answers_that_do_not_come_cost_as_many_offices_as_planned(name: str) -> None:
    timing, lots = TIMINGS[name], random.Random(name)
    lost_share = 0.35

    class Lossy:
        typical_s = 0.01

        def slower_than(self, s: float) -> float:
            return 1.0 if s < self.typical_s else lost_share

    leader = Leader(timing, lambda _: None if lots.random() < lost_share else 10_000_000, lots)
    days = 0.4 * timing.renew_every_ns / 2e9 * (5 if name == "five misses" else 1)
    leader.run(leader.now + int(days * DAY_S * 1e9))
    planned = lost_by_answers(timing, Lossy()) * days
    assert planned > 10
    assert len(leader.lost_at) == pytest.approx(planned, abs=4 * math.sqrt(planned) + 0.05 * planned)


@pytest.mark.parametrize("name", ["as shipped", "one miss", "five misses"])
def test_outages_that_come_at_any_time_cost_as_many_offices_as_planned(name: str) -> None:
    timing, lots, trip_s = TIMINGS[name], random.Random(name), 0.05
    trip_ns, mean_s = round(trip_s * 1e9), timing.ttl_ns / 1e9 / 3
    per_day, days = DAY_S / (40 * mean_s), mean_s / 3
    tail = Tail(0.0, per_day, mean_s)

    class Planned:
        def per_day(self, longer_than_s: float) -> float:
            return tail.beyond(longer_than_s)

    draws = iter(lambda: lots.expovariate(1 / mean_s), None)
    outages = poisson(per_day, draws, lots, timing.renew_every_ns * 1000)
    now_out = next(outages)

    def trip(now: int) -> int | None:
        nonlocal now_out
        while now_out[1] <= now:
            now_out = next(outages)
        return trip_ns if now + trip_ns <= now_out[0] else None

    leader = Leader(timing, trip, lots)
    leader.run(leader.now + int(days * DAY_S * 1e9))
    planned = lost_by_outages(timing, Planned(), trip_s) * days
    assert planned > 25
    assert len(leader.lost_at) == pytest.approx(planned, abs=4 * math.sqrt(planned))


@pytest.mark.parametrize(("name", "trip_s"), [*((name, 0.05) for name in TIMINGS | MANY), ("as shipped", 0.6)])
def test_single_outages_cost_the_office_as_often_as_planned(name: str, trip_s: float) -> None:
    """One outage at a time, so that there are thousands of them: to within a few hundredths, where chance allows a tenth above."""
    timing, lots, count = (TIMINGS | MANY)[name], random.Random(name), 3000 if name in TIMINGS else 1000
    trip_ns, mean_s = round(trip_s * 1e9), stop_after_s(timing) / 2
    lost = 0
    for _ in range(count):
        from_ns = timing.renew_every_ns * 1005 + lots.randrange(timing.renew_every_ns)
        until_ns = from_ns + round(lots.expovariate(1 / mean_s) * 1e9)

        def trip(now: int, from_ns: int = from_ns, until_ns: int = until_ns) -> int | None:
            return None if from_ns < now + trip_ns and now < until_ns else trip_ns

        leader = Leader(timing, trip, lots)
        leader.run(until_ns + 2 * timing.ttl_ns)
        assert len(leader.lost_at) <= 1
        lost += len(leader.lost_at)

    class Once:
        def per_day(self, longer_than_s: float) -> float:
            return Tail(0.0, 1.0, mean_s).beyond(longer_than_s)

    chance = lost_by_outages(timing, Once(), trip_s)
    assert 0.1 < chance < 0.9
    assert lost / count == pytest.approx(chance, abs=4 * math.sqrt(chance * (1 - chance) / count))


def test_an_outage_costs_more_offices_than_a_pause_of_its_length() -> None:
    tail = Tail(0.0, 10.0, 1.0)

    class Ten:
        def per_day(self, longer_than_s: float) -> float:
            return tail.beyond(longer_than_s)

    for timing in TIMINGS.values():
        assert lost_by_outages(timing, Ten(), 0.001) > lost_by_pauses(timing, Ten(), 0.001)


class Counted(Timing):
    """A timing that counts how often it is asked when an attempt is made again."""

    asked_count = 0

    def answer_within_ns(self, failure_count: int, chance: float) -> int:
        Counted.asked_count += 1
        return super().answer_within_ns(failure_count, chance)


@pytest.mark.parametrize("heartbeat_s", [0.5, 30])
def test_a_thousand_misses_are_no_more_work_than_three(heartbeat_s: float) -> None:
    outages, work = Tail(0.0, 10.0, heartbeat_s), []

    class Ten:
        asked_count = 0

        def per_day(self, longer_than_s: float) -> float:
            self.asked_count += 1
            return outages.beyond(longer_than_s)

    for misses in (3, 20, 1000):
        Counted.asked_count, ten = 0, Ten()
        lost_by_outages(Counted.of(heartbeat=heartbeat_s, misses=misses), ten, 0.001)
        work.append((Counted.asked_count, ten.asked_count))
    assert max(asked for asked, _ in work) <= 64
    assert max(asked for _, asked in work) <= 100


def test_answers_that_are_hardly_ever_all_late_are_not_looked_at_one_by_one() -> None:
    class Lossy:
        typical_s, asked_count = 0.01, 0

        def slower_than(self, s: float) -> float:
            self.asked_count += 1
            return 1.0 if s < self.typical_s else 0.35

    lossy = Lossy()
    assert lost_by_answers(MANY["a hundred misses"], lossy) < 1e-9
    assert lossy.asked_count < 50


def test_ways_with_more_loss_are_slower_and_a_way_without_answers_is_always_late() -> None:
    quick, lossy = Ways(0.001, 0.01), Ways(0.001, 0.01, 0.2)
    assert quick.slower_than(0.001) == pytest.approx(0.5)
    assert quick.slower_than(0.01) == pytest.approx(0.01, rel=0.01)
    assert lossy.slower_than(0.1) == pytest.approx(0.2, rel=0.01)
    assert lossy.slower_than(0.3) == pytest.approx(0.04, rel=0.01)
    assert lossy.slower_than(math.inf) == pytest.approx(0.2**8)

"""Waits that end together are not begun again together: how long each pauses is a function of what it draws by chance."""

import time
from collections.abc import Callable
from functools import partial

import pytest

from tenure.model import Bid, Holder
from tenure.stores.consul.layout import LOCK_FLAG
from tenure.stores.consul.store import ConsulStore
from tenure.stores.consul.waits import again_after_s, delayed_s, pause_s
from tests.clients.consul.consul_stub import PAIR, Consul, asking, ok, play

ANSWERS = 40
Pause = Callable[[float], float]


@pytest.mark.parametrize(
    ("pause", "least_s", "most_s"),
    [
        pytest.param(again_after_s, 0.0, 0.1, id="after an answer that helps nobody"),
        pytest.param(delayed_s, 0.3, 0.7, id="in a lock-delay"),
        pytest.param(partial(delayed_s, left_s=14.0), 0.3, 0.7, id="in a lock-delay that lasts"),
        pytest.param(partial(delayed_s, left_s=0.1), 0.1, 0.12, id="at the end of a lock-delay"),
        pytest.param(partial(pause_s, pausing_count=1), 1.0, 2.0, id="without room to wait"),
        pytest.param(partial(pause_s, pausing_count=100), 1.0, 2.0, id="a hundred without room"),
        pytest.param(partial(pause_s, pausing_count=300), 3.0, 6.0, id="three hundred without room"),
    ],
)
def test_a_pause_is_spread_evenly_by_chance_between_its_bounds(pause: Pause, least_s: float, most_s: float) -> None:
    lots = [number / 8 for number in range(9)]
    pauses_s = [pause(chance) for chance in lots]
    assert pauses_s == pytest.approx([least_s + chance * (most_s - least_s) for chance in lots])


@pytest.mark.parametrize("count", [1, 70, 100, 101, 400, 5000])
def test_all_who_find_no_room_ask_together_no_more_than_seventy_times_a_second(count: int) -> None:
    # Each asks once in what it pauses for on average, which is what an even chance gives.
    assert count / pause_s(0.5, count) < 70


def test_an_agent_that_answers_every_wait_at_once_is_not_asked_at_once_again() -> None:
    held = [ok([{**PAIR, "Session": "another"}], X_Consul_Index=str(9 + number)) for number in range(ANSWERS)]

    async def story() -> None:
        consul = Consul(*held, ok([{**PAIR, "Flags": LOCK_FLAG}], X_Consul_Index="99"))
        async with asking(consul) as client:
            store = ConsulStore(client)
            place = store._new_place(Bid("x", Holder.fresh(), 1, 10**10))
            began_s = time.monotonic()
            await store._candidacy.wait(place)
            took_s = time.monotonic() - began_s
            await store._waits.close()
        assert len(consul.told) == ANSWERS + 1
        assert [told.query["index"] for told in consul.told] == ["1", *(str(9 + number) for number in range(ANSWERS))]
        assert place.free_at == PAIR["ModifyIndex"]
        # The pauses are 2 s together on average, and less than this in one of eight thousand million runs.
        assert took_s > 0.9

    play(story())

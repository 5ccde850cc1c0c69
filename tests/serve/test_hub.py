"""Events for however many listen: in their order, from where each left off, and nobody waits for anybody."""

import asyncio
import time

import pytest

from tenure.serve.answers import Fault
from tenure.serve.hub import BYTES_KEPT, CHUNKS_MAX, SEND_WITHIN_S, Hub

ALL: frozenset[str] = frozenset()


def numbers(chunk: bytes | None) -> list[int]:
    assert chunk is not None
    return [int(line.rpartition(b"-")[2]) for line in chunk.splitlines() if line.startswith(b"id:")]


class FakePipe:
    """A connection that takes what there is room for."""

    def __init__(self) -> None:
        self.written = b""
        self.pending, self.aborted, self.is_cut_off, self.is_stream = 0, False, False, False

    def write(self, content: bytes) -> None:
        self.written += content

    def pending_bytes(self) -> int:
        return self.pending

    def abort(self) -> None:
        self.aborted = True

    def waits(self) -> None:
        pass

    def showed_token(self) -> None:
        pass


def test_whoever_has_a_pipe_is_written_to_at_once_while_it_has_room_and_cut_off_when_it_has_none_for_long() -> None:
    async def main() -> None:
        hub, pipe = Hub(), FakePipe()
        client = hub.join(ALL, None, pipe)
        client.writes = True
        hub.publish("fact", {"n": 1})
        hub._wake_all()
        size, _, rest = pipe.written.partition(b"\r\n")
        assert rest[: int(size, 16)].startswith(b"id: ")
        assert rest[int(size, 16) :] == b"\r\n"
        pipe.pending, before = 10**6, pipe.written
        hub.publish("fact", {"n": 2})
        hub._wake_all()
        assert pipe.written == before
        pipe.pending = 0
        hub.beat()
        assert b'"n":2' in pipe.written  # Nothing is lost to who was slow for a while.
        pipe.pending = 10**6
        hub.publish("fact", {"n": 3})
        hub._wake_all()
        assert client.sending_since_s is not None
        client.sending_since_s -= SEND_WITHIN_S + 1
        hub.beat()
        assert pipe.aborted
        assert client.gone

    asyncio.run(main())


def test_everybody_gets_what_came_after_it_joined_once_and_in_order() -> None:
    async def main() -> None:
        hub = Hub()
        hub.publish("fact", {"n": 1})
        early = hub.join(ALL, None, None)
        hub.publish("fact", {"n": 2})
        late = hub.join(ALL, None, None)
        hub.publish("fact", {"n": 3})
        assert numbers(early.take()) == [2, 3]
        assert numbers(late.take()) == [3]
        assert early.take() == late.take() == b""

    asyncio.run(main())


def test_who_comes_back_gets_what_it_missed_and_who_cannot_is_told_so() -> None:
    async def main() -> None:
        hub = Hub(kept=4)
        hub.publish("fact", {"n": 1})
        left_at = hub.last_id
        for number in range(2, 6):
            hub.publish("fact", {"n": number})
        back = hub.join(ALL, left_at, None)
        assert hub.missed(left_at) == b""
        assert numbers(back.take()) == [2, 3, 4, 5]
        for number in range(6, 20):
            hub.publish("fact", {"n": number})
        for gone in (left_at, "another-3", "x", hub.last_id + "0", "\x00-\u0664"):
            assert b"event: missed" in hub.missed(gone)
            assert hub.join(ALL, gone, None).take() == b""  # From now on.

    asyncio.run(main())


def test_who_is_too_slow_for_the_row_is_cut_off_and_the_others_are_not() -> None:
    async def main() -> None:
        hub = Hub(kept=4)
        slow, quick = hub.join(ALL, None, None), hub.join(ALL, None, None)
        for number in range(20):
            hub.publish("fact", {"n": number})
            assert numbers(quick.take()) == [number + 1]
        assert slow.take() is None

    asyncio.run(main())


def test_who_does_not_read_what_it_is_sent_loses_its_connection() -> None:
    async def main() -> None:
        hub, pipe, other = Hub(), FakePipe(), FakePipe()
        stuck, fine = hub.join(ALL, None, pipe), hub.join(ALL, None, other)
        stuck.sending_since_s = time.monotonic() - SEND_WITHIN_S - 1
        hub.beat()
        assert (pipe.aborted, other.aborted) == (True, False)
        assert (stuck.gone, fine.gone) == (True, False)
        assert fine.take() == b": still here\n\n"

    asyncio.run(main())


def test_who_wants_one_election_hears_of_it_and_of_the_store_alone() -> None:
    async def main() -> None:
        hub = Hub()
        one = hub.join(frozenset({"a"}), None, None)
        for election in ("a", "b", "", None):
            hub.publish("fact", {"of": election}, election)
        assert numbers(one.take()) == [1, 3]

    asyncio.run(main())


def test_there_is_room_for_so_many_and_none_once_it_closes() -> None:
    async def main() -> None:
        hub = Hub(clients_max=1)
        one = hub.join(ALL, None, None)
        with pytest.raises(Fault, match="too-many-clients"):
            hub.join(ALL, None, None)
        hub.clients.discard(one)
        hub.close()
        with pytest.raises(Fault, match="leaving"):
            hub.join(ALL, None, None)

    asyncio.run(main())


def test_a_storm_of_events_wakes_clients_in_bundles_and_a_single_one_at_once() -> None:
    async def main() -> None:
        hub = Hub()
        clients = [hub.join(ALL, None, None) for _ in range(1000)]
        woken = 0
        for client in clients:
            client.take()
        for number in range(50):
            hub.publish("fact", {"n": number})
            await asyncio.sleep(0)
            if clients[0].news.is_set():
                woken += 1
                for client in clients:
                    client.take()
        assert woken == 1  # The first, and all others a little later.
        async with asyncio.timeout(10):
            await clients[0].news.wait()
        assert numbers(clients[0].take())[-1] == 50

    asyncio.run(main())


def test_large_events_are_kept_in_fewer_and_the_last_always() -> None:
    async def main() -> None:
        hub = Hub()
        for _ in range(30):
            hub.publish("board", {"n": "x" * (BYTES_KEPT // 10)})
        kept = numbers(hub.since(hub.last - len(hub._row), ALL))
        assert kept == list(range(kept[0], 31))
        assert 9 <= len(kept) <= 20
        assert hub._row_bytes == sum(len(event.block) for event in hub._row)
        hub.publish("board", {"n": "x" * (3 * BYTES_KEPT)})
        assert numbers(hub.since(30, ALL)) == [31]
        assert hub.since(29, ALL) is None

    asyncio.run(main())


def test_who_asks_from_each_event_on_has_nothing_kept_for_it() -> None:
    async def main() -> None:
        hub = Hub()
        for number in range(5 * CHUNKS_MAX):
            hub.publish("fact", {"n": number})
        assert [numbers(hub.since(at, ALL))[0] for at in range(4 * CHUNKS_MAX)] == list(range(1, 4 * CHUNKS_MAX + 1))
        assert len(hub._chunks) <= CHUNKS_MAX

    asyncio.run(main())

"""``store.update``: a change is made once or not at all, whoever else writes and whatever answer is lost."""

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest

import tenure
from tenure import sync
from tenure.errors import ConfigError, Contended, OutcomeUnknown, Refused, StoreError, Unreachable
from tenure.model import Conflict, Document, Version
from tenure.office.opened import run_there
from tenure.office.updating import Change, flow_of, proceed, read
from tenure.stores.memory import MemoryEngine, MemoryStore
from tenure.stores.trail import TRAIL_MAX

On = Callable[[Callable[[], Awaitable[None]]], None]


def add_one(old: bytes | None) -> bytes:
    return b"%d" % (int(old or b"0") + 1)


@pytest.mark.parametrize("url", ["memory://", "sqlite://{}/x.db"])
def test_an_update_makes_a_document_and_changes_it(url: str, on: On, tmp_path: Path) -> None:
    async def main() -> None:
        async with tenure.open_store(url.format(tmp_path)) as store:
            assert await store.document("stock/apples") is None
            assert [await store.update("stock/apples", add_one) for _ in range(3)] == [b"1", b"2", b"3"]
            found = await store.document("stock/apples")
            assert found is not None
            assert found.value == b"3"

    on(main)


def test_the_same_for_threads(tmp_path: Path) -> None:
    with sync.open_store(f"sqlite://{tmp_path}/x.db") as store, ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: store.update("n", add_one), range(40)))
        found = store.document("n")
    assert found is not None
    assert found.value == b"40"


def test_what_is_left_as_it_was_is_not_written(on: On) -> None:
    async def main() -> None:
        async with tenure.open_store("memory://") as store:
            await store.update("n", add_one)
            before = await store.document("n")
            assert await store.update("n", lambda old: old or b"") == b"1"
            assert await store.document("n") == before

    on(main)


def test_the_function_runs_where_the_user_called_and_keeps_no_renewal_waiting() -> None:
    threads = set[str]()

    def slowly(old: bytes | None) -> bytes:
        threads.add(threading.current_thread().name)
        time.sleep(3)
        return add_one(old)

    with sync.open_store("memory://") as store, sync.Election(store, "x", ttl=2).once() as term:
        store.update("n", slowly)
        assert term.valid
    assert threads == {threading.current_thread().name}


def test_what_the_function_raises_is_raised_and_nothing_is_written(on: On) -> None:
    def refuse(old: bytes | None) -> bytes:
        raise LookupError(old)

    async def main() -> None:
        async with tenure.open_store("memory://") as store:
            with pytest.raises(LookupError):
                await store.update("n", refuse)
            assert await store.document("n") is None

    on(main)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("", b"", "key = '': must be a name"),
        ("a//b", b"", "key = 'a//b': must have no empty part"),
        ("a\nb", b"", "must be printable"),
        ("k" * 256, b"", "at most 255 bytes"),
        ("k", "text", "new value of 'k' = str: must be bytes"),
        ("k", None, "must be bytes"),
        ("k", b"x" * (256 * 1024 + 1), "new value of 'k' = 262145 bytes: must have at most 262144"),
    ],
)
def test_what_no_engine_could_keep_is_refused_in_one_line(key: str, value: bytes, said: str) -> None:
    with sync.open_store("memory://") as store:
        with pytest.raises(ConfigError) as refused:
            store.update(key, lambda _: value)
        assert said in str(refused.value)
        assert "\n" not in str(refused.value)


def test_a_limit_that_is_no_time_and_a_store_without_documents_are_refused() -> None:
    class ElectsOnly(MemoryStore):
        swap = None  # type: ignore[assignment]

    with pytest.raises(ConfigError, match="within"):
        flow_of(MemoryStore(), "k", add_one, 0)
    with pytest.raises(ConfigError, match="keeps no documents"):
        flow_of(ElectsOnly(), "k", add_one, 1)


def test_what_another_program_has_written_is_neither_read_nor_replaced() -> None:
    async def main() -> None:
        store = MemoryStore()
        written = await store.swap("k", b"of another program", None)
        for call in (read(store, "k"), updated(store, "k", add_one)):
            with pytest.raises(Refused, match="written by another program"):
                await call
        assert await store.fetch("k") == written

    asyncio.run(main())


async def updated(store: MemoryStore, key: str, fn: Change, within: float = 10) -> bytes:
    """Update on this very loop, as the office would."""
    flow = flow_of(store, key, fn, within)
    asked, value = proceed(flow, None)
    while asked is not None:
        asked, value = proceed(flow, await asked)
    return value


def test_what_was_seen_last_is_only_tried_and_what_is_there_now_decides(on: On, tmp_path: Path) -> None:
    shown = list[bytes | None]()

    def raises_once_it_is_3(old: bytes | None) -> bytes:
        shown.append(old)
        if old in (b"1", b"3"):
            raise LookupError(old)
        return add_one(old)

    def at_least_2(old: bytes | None) -> bytes:
        shown.append(old)
        return max(old or b"", b"2")

    async def main() -> None:
        url = f"sqlite://{tmp_path}/x.db"
        async with tenure.open_store(url) as mine, tenure.open_store(url) as others:
            await mine.update("n", add_one)
            await others.update("n", add_one)
            # It raises at what mine has seen last, which says nothing, and is asked again.
            assert await mine.update("n", raises_once_it_is_3) == b"3"
            assert shown == [b"1", b"2"]
            await others.update("n", lambda _: b"0")
            # It would leave what mine has seen last as it is, which is no longer there.
            assert await mine.update("n", at_least_2) == b"2"
            assert shown == [b"1", b"2", b"3", b"0"]
            await others.update("n", add_one)
            assert await mine.update("n", add_one) == b"4"
            with pytest.raises(LookupError):
                await mine.update("n", lambda _: (_ for _ in ()).throw(LookupError()))
            assert await others.update("n", add_one) == b"5"

    on(main)


class Faulty(MemoryStore):
    """Loses what is on its way, both ways, by chance; a request may also arrive long after nobody waits for it any more."""

    def __init__(self, engine: MemoryEngine, chance: random.Random) -> None:
        super().__init__(engine)
        self.chance, self.late = chance, list[tuple[str, bytes, Version | None]]()

    async def fetch(self, key: str) -> Document | None:
        await asyncio.sleep(0)
        if self.chance.random() < 0.1:
            raise OutcomeUnknown("faulty://", "fetch", "lost")
        return await super().fetch(key)

    async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        await asyncio.sleep(0)
        if self.late and self.chance.random() < 0.5:
            await super().swap(*self.late.pop(0))
        match self.chance.randrange(6):
            case 0:
                raise OutcomeUnknown("faulty://", "swap", "the request was lost")
            case 1:
                self.late.append((key, value, version))
                raise OutcomeUnknown("faulty://", "swap", "the request is late")
            case 2:
                await super().swap(key, value, version)
                raise OutcomeUnknown("faulty://", "swap", "the answer was lost")
            case 3:
                raise Unreachable("faulty://", "swap", "not sent")
        return await super().swap(key, value, version)


@pytest.mark.parametrize("seed", range(8))
def test_each_change_is_made_exactly_once_whatever_is_lost_on_the_way(seed: int) -> None:
    """Each adds a name of its own: a change that was made twice, or that was lost, is seen in what there is in the end."""
    engine, chance = MemoryEngine(), random.Random(seed)
    told, unknown = list[str](), list[str]()

    async def add(store: Faulty, writer: int) -> None:
        for number in range(8):
            name = f"{writer}-{number}"
            try:
                await updated(store, "names", lambda old, name=name: (old or b"") + f"{name} ".encode())  # type: ignore[misc]
                told.append(name)
            except OutcomeUnknown:
                unknown.append(name)

    async def main() -> None:
        stores = [Faulty(engine, chance) for _ in range(5)]
        async with anyio.create_task_group() as tasks:
            for writer, store in enumerate(stores):
                tasks.start_soon(add, store, writer)
        for store in stores:
            for late in store.late:
                engine.swap(*late)
        found = await read(MemoryStore(engine), "names")
        assert found is not None
        count = Counter(found.value.decode().split())
        assert set(count.values()) == {1}
        assert set(told) <= set(count) <= {*told, *unknown}
        assert len(told) >= 38, unknown  # Only who is passed by 32 others cannot tell.

    asyncio.run(main())


def test_a_writer_that_was_passed_by_too_many_says_that_it_does_not_know() -> None:
    class Passed(MemoryStore):
        """The answer to a write is lost, and before it is asked for again others write so often that its trace is gone."""

        async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
            answer = await super().swap(key, value, version)
            if isinstance(answer, Conflict):
                return answer
            for _ in range(TRAIL_MAX):
                await updated(MemoryStore(self._engine), key, add_one)
            raise OutcomeUnknown("passed://", "swap", "the answer was lost")

    with pytest.raises(OutcomeUnknown, match="so often since then"):
        asyncio.run(updated(Passed(), "n", add_one))


def test_what_is_still_unknown_when_time_is_up_is_told_as_unknown_and_what_was_never_sent_is_not() -> None:
    class Silent(MemoryStore):
        error: StoreError = OutcomeUnknown("silent://", "swap", "no answer")

        async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:  # noqa: ARG002
            raise self.error

    class Unread(MemoryStore):
        async def fetch(self, key: str) -> Document | None:  # noqa: ARG002
            raise OutcomeUnknown("unread://", "fetch", "no answer")

    class Unsent(Silent):
        error = Unreachable("unsent://", "swap", "no route")

    class Forbidden(Silent):
        error = Refused("forbidden://", "swap", "no rights")

    for store, error in (
        (Silent(), OutcomeUnknown),
        (Unread(), Unreachable),
        (Unsent(), Unreachable),
        (Forbidden(), Refused),
    ):
        with pytest.raises(error):
            asyncio.run(updated(store, "n", add_one, within=0.05))


def test_one_who_always_comes_second_says_so_and_has_written_nothing() -> None:
    class Slow(MemoryStore):
        """Whoever writes here finds that somebody has written just before."""

        async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
            await updated(MemoryStore(self._engine), key, lambda old: (old or b"") + b".")
            return await super().swap(key, value, version)

    engine = MemoryEngine()
    with pytest.raises(Contended, match="others wrote 'n' first"):
        asyncio.run(updated(Slow(engine), "n", lambda old: (old or b"") + b"x", within=0.05))
    assert b"x" not in (engine.fetch("n") or Document(b"", Version(""))).value


def test_an_update_that_is_cancelled_leaves_a_whole_document(on: On) -> None:
    async def main() -> None:
        async with tenure.open_store("memory://") as store:
            for turn_count in range(8):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(store.update, "n", add_one)
                    for _ in range(turn_count):
                        await anyio.lowlevel.checkpoint()
                    tasks.cancel_scope.cancel()
                await run_there(store.office, asyncio.sleep(0))
            count = int((await store.document("n") or Document(b"0", Version(""))).value)
            assert 0 <= count <= 8
            assert await store.update("n", add_one) == b"%d" % (count + 1)

    on(main)

"""The recorder: whatever its store does, no election waits for it nor fails by it, and what is lost is counted and told."""

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

import tenure
from tenure.apps.history import TenureRecord, keep, look, read_history
from tenure.errors import ConfigError, Refused, StoreError, Unreachable
from tenure.facts.kinds import Elected, Renewed
from tenure.model import Conflict, Document, Version
from tenure.stores.memory import MemoryStore
from tests.hearing import Hearing
from tests.history.making import until
from tests.processes import check_eventually

PATIENCE_S = 30.0
TTL_S = 0.4


class Frail(MemoryStore):
    """Holds elections as ever, and keeps documents as badly as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.error: StoreError | None = None
        self.blocks: anyio.Event | None = None
        self.blocked = threading.Event()
        self.swap_count = 0

    async def fetch(self, key: str) -> Document | None:
        await self._suffer()
        return await super().fetch(key)

    async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        await self._suffer()
        self.swap_count += 1
        return await super().swap(key, value, version)

    async def _suffer(self) -> None:
        if self.blocks is not None:
            self.blocked.set()
            await self.blocks.wait()
        if self.error is not None:
            raise self.error


class ElectsOnly:
    """A store that somebody else wrote: five methods and no documents."""

    address, identity = "paper://desk", "paper-1"

    def __init__(self) -> None:
        engine = MemoryStore()
        self.traits = engine.traits
        self.claim, self.renew, self.release = engine.claim, engine.renew, engine.release
        self.changed, self.read = engine.changed, engine.read


async def nothing(_: tenure.Tenure) -> None:
    pass


def tokens(tenures: list[TenureRecord]) -> list[int]:
    return [one.token for one in tenures]


def test_what_was_led_in_a_block_is_recorded_at_its_end(on: Callable[..., None]) -> None:
    async def test() -> None:
        async with tenure.open_store("memory://") as store:
            async with keep(store):
                await tenure.Election(store, "jobs", ttl=TTL_S).lead(nothing)
                await tenure.Election(store, "jobs", ttl=TTL_S).lead(nothing)
            first, second = await read_history(store, "jobs")
        assert (first.reason, second.reason, first.ttl_s) == ("resigned", "resigned", TTL_S)
        assert second.gap_s is not None
        assert second.token > first.token

    on(test)


def test_threads_keep_it_likewise() -> None:
    with tenure.sync.open_store("memory://") as store:
        with keep(store) as recorder, tenure.sync.Lock(store, "jobs", ttl=TTL_S):
            pass
        assert recorder.dropped_count == 0
        (one,) = anyio.run(read_history, store, "jobs")
        assert one.reason == "resigned"


def test_only_the_elections_that_were_asked_for_are_kept() -> None:
    async def test() -> None:
        store = MemoryStore()
        async with keep(store, elections={"jobs"}):
            for name in ("jobs", "mail"):
                await tenure.Election(store, name, ttl=TTL_S).lead(nothing)
        assert [len(await read_history(store, name)) for name in ("jobs", "mail")] == [1, 0]

    anyio.run(test)


def test_while_its_store_never_answers_renewals_go_on_and_leaving_takes_a_bounded_time() -> None:
    async def test() -> None:
        store = Frail()
        store.blocks = anyio.Event()
        recorder = keep(store)
        election = tenure.Election(store, "jobs", ttl=TTL_S)
        with recorder, Hearing(election) as heard:

            def renewed() -> bool:
                return store.blocked.is_set() and sum(isinstance(one, Renewed) for one in heard.all) > 5

            await election.lead(until(renewed))
            assert [one.reason.value for one in heard.left] == ["resigned"]
            recorder.close(within_s=0.1)
        store.blocks = None
        assert await read_history(store, "jobs") == []

    anyio.run(test)


def test_a_store_that_comes_back_gets_what_happened_meanwhile_and_it_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        store = Frail()
        store.error = Unreachable("frail://", "swap", "no way to it")
        async with keep(store) as recorder:
            for _ in range(3):
                await tenure.Election(store, "jobs", ttl=TTL_S).lead(nothing)
            check_eventually(lambda: "history is not recorded" in caplog.text)
            store.error = None
            check_eventually(lambda: "history is recorded again" in caplog.text)
        assert recorder.dropped_count == 0
        assert tokens(await read_history(store, "jobs")) == [1, 2, 3]
        assert store.swap_count < 4  # Begin and end of all of them were written together.

    with caplog.at_level(logging.INFO, "tenure.history"):
        anyio.run(test)
    told = [record.getMessage() for record in caplog.records if record.name == "tenure.history"]
    assert [text.partition(":")[0] for text in told] == ["history is not recorded", "history is recorded again"]


def test_a_store_that_refuses_costs_the_records_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        store = Frail()
        store.error = Refused("frail://", "swap", "no right: password=geheim")
        recorder = keep(store)
        async with recorder:
            await tenure.Election(store, "jobs", ttl=TTL_S).lead(nothing)
        assert recorder.dropped_count in {1, 2}  # its beginning and its end, together or not
        store.error = None
        assert await read_history(store, "jobs") == []

    anyio.run(test)
    assert "history is not recorded" in caplog.text
    assert "geheim" not in caplog.text


def test_what_another_version_wrote_is_left_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with tenure.open_store("memory://") as store:
            await store.update("tenure/history/jobs", lambda _: b'{"format":99}')
            async with keep(store) as recorder:
                await tenure.Election(store, "jobs", ttl=TTL_S).lead(nothing)
                await tenure.Election(store, "mail", ttl=TTL_S).lead(nothing)
            found = await store.document("tenure/history/jobs")
            assert found is not None
            assert found.value == b'{"format":99}'
            assert recorder.dropped_count > 0
            assert len(await read_history(store, "mail")) == 1

    anyio.run(test)
    assert "in a form that this version does not know" in caplog.text


def test_a_store_without_documents_has_a_file_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    async def test() -> None:
        store = ElectsOnly()
        async with keep(store):
            await tenure.Election(store, "jobs", ttl=TTL_S).lead(nothing)
        found = await look(store, "jobs")
        assert [one.reason for one in found.tenures] == ["resigned"]
        assert found.folder == str(tmp_path / "tenure" / "history")

    anyio.run(test)
    assert sorted(path.suffix for path in (tmp_path / "tenure" / "history").iterdir()) == ["", ".json"]


def test_who_has_no_folder_for_such_a_file_leads_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "tenure").write_text("a file where a folder should be")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    async def test() -> None:
        store = ElectsOnly()
        async with keep(store) as recorder:
            await tenure.Election(store, "jobs", ttl=TTL_S).lead(nothing)
        assert recorder.dropped_count == 1

    anyio.run(test)
    assert "history is not recorded" in caplog.text


def test_who_asks_while_somebody_leads_finds_it_in_office() -> None:
    async def test() -> None:
        store = MemoryStore()
        async with keep(store):
            election = tenure.Election(store, "jobs", ttl=TTL_S)
            found: list[TenureRecord] = []

            async def body(_: tenure.Tenure) -> None:
                with anyio.fail_after(PATIENCE_S):
                    while not found:
                        found.extend(await read_history(store, "jobs"))

            await election.lead(body)
        (one,) = found
        assert (one.in_office, one.ended_s, one.holder) == (True, None, str(election.holder))

    anyio.run(test)


def test_the_child_of_a_fork_writes_nothing_in_its_parents_name() -> None:
    store = MemoryStore()
    with keep(store) as recorder:
        tenure.facts.publish(Elected(tenure.Token(7), 0), store.address, "jobs", tenure.Holder.fresh())
        check_eventually(lambda: recorder.written_count == 1)
        pid = os.fork()
        if pid == 0:
            tenure.facts.publish(Elected(tenure.Token(8), 0), store.address, "jobs", tenure.Holder.fresh())
            recorder.close()
            os._exit(recorder.written_count)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


def test_a_recorder_is_used_once() -> None:
    recorder = keep(MemoryStore())
    with recorder, pytest.raises(ConfigError, match="used once"):
        recorder.__enter__()
    recorder.close()  # once more, and harmless


def test_a_store_must_be_open_to_be_kept() -> None:
    with pytest.raises(ConfigError, match="use it inside"):
        keep(tenure.open_store("memory://")).__enter__()


def test_ten_thousand_elections_taken_at_once_are_counted_and_none_is_forgotten() -> None:
    store, holder = MemoryStore(), tenure.Holder.fresh()
    recorder = keep(store)
    with recorder:
        for number in range(10_000):
            tenure.facts.publish(Elected(tenure.Token(number + 1), 0), store.address, f"e{number}", holder)
        check_eventually(lambda: recorder.written_count >= 20)
        assert recorder.dropped_count == 0
        recorder.close(within_s=0.5)
        check_eventually(lambda: recorder.written_count + recorder.dropped_count == 10_000)

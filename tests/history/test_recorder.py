"""The recorder: whatever its store does, no election waits for it nor fails by it, and what is lost is counted and told."""

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import pytest

import tenure
from tenure.apps.history import TenureRecord, keep, look, read_history
from tenure.errors import ConfigError, Reason
from tenure.facts.kinds import Elected, Left, Renewed
from tenure.facts.subscribing import subscriptions
from tenure.stores.memory import MemoryStore
from tests.hearing import Hearing
from tests.history.making import TTL_S, Frail, nothing, recorded, until
from tests.processes import check_eventually

PATIENCE_S = 30.0


class ElectsOnly:
    """A store that somebody else wrote: five methods and no documents."""

    address, identity = "paper://desk", "paper-1"

    def __init__(self) -> None:
        engine = MemoryStore()
        self.traits = engine.traits
        self.claim, self.renew, self.release = engine.claim, engine.renew, engine.release
        self.changed, self.read = engine.changed, engine.read


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


def test_the_child_of_a_fork_begins_no_thread_to_write_with() -> None:
    store = MemoryStore()
    with keep(store):
        pid = os.fork()
        if pid == 0:
            tenure.facts.publish(Elected(tenure.Token(8), 0), store.address, "jobs", tenure.Holder.fresh())
            heard = all(one.wait_until_told(PATIENCE_S) for one in subscriptions())
            os._exit(not heard or any(one.name == "tenure-history" for one in threading.enumerate()))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_who_resigns_is_not_taken_for_one_that_vanished_however_often_its_election_was_written() -> None:
    """Ten writes of one election are made at once; the end of the tenth tenure would be the eleventh, and wait for a minute."""
    store, holder = MemoryStore(), tenure.Holder.fresh()
    with keep(store) as recorder:
        for token in range(1, 11):
            tenure.facts.publish(Elected(tenure.Token(token), 0), store.address, "jobs", holder)
            check_eventually(partial(recorded, recorder, token))
        tenure.facts.publish(Left(tenure.Token(10), Reason.RESIGNED), store.address, "jobs", holder)
        check_eventually(partial(recorded, recorder, 11))
        assert anyio.run(read_history, store, "jobs")[-1].reason == "resigned"


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

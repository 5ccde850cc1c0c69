"""A store that fails, refuses, or has no room: it costs records, which are counted and told once, and others do not wait for them."""

import logging
import time
from functools import partial

import anyio
import pytest

import tenure
from tenure.apps.history import keep, read_history
from tenure.apps.history.places import key_of
from tenure.errors import Refused, Unreachable
from tenure.facts.kinds import Elected
from tenure.office.thread import Office
from tests.history.making import TTL_S, Frail, nothing, recorded, tokens
from tests.processes import check_eventually


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


def test_a_store_that_has_no_thread_left_gets_what_happened_meanwhile_and_it_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Python says so by a RuntimeError, as it says that the interpreter is leaving."""
    store, holder = Frail(), tenure.Holder.fresh()
    store.error = RuntimeError("can't start new thread")
    with caplog.at_level(logging.INFO, "tenure.history"), keep(store) as recorder:
        tenure.facts.publish(Elected(tenure.Token(7), 0), store.address, "jobs", holder)
        check_eventually(lambda: "can't start new thread" in caplog.text)
        store.error = None
        check_eventually(lambda: "history is recorded again" in caplog.text)
        assert (recorder.written_count, recorder.dropped_count) == (1, 0)
    assert caplog.text.count("history is not recorded") == 1


def test_a_store_that_raises_what_nobody_has_foreseen_gets_what_happened_meanwhile_and_it_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, holder = Frail(), tenure.Holder.fresh()
    store.error = TypeError("password=geheim")
    with caplog.at_level(logging.INFO, "tenure.history"), keep(store) as recorder:
        for token in (7, 8):
            tenure.facts.publish(Elected(tenure.Token(token), 0), store.address, "jobs", holder)
            check_eventually(lambda: "history is not recorded: TypeError" in caplog.text)
        store.error = None
        check_eventually(lambda: "history is recorded again" in caplog.text)
        assert recorder.dropped_count == 0
    assert tokens(anyio.run(read_history, store, "jobs")) == [7, 8]
    assert caplog.text.count("history is not recorded") == 1
    assert "geheim" not in caplog.text


def test_a_log_whose_handler_raises_does_not_end_the_recorder() -> None:
    class Broken(logging.Handler):
        told = 0

        def emit(self, _: logging.LogRecord) -> None:
            self.told += 1
            raise KeyError("a bug")

    store, handler, log = Frail(), Broken(), logging.getLogger("tenure.history")
    store.error = Unreachable("frail://", "swap", "no way to it")
    log.addHandler(handler)
    try:
        with keep(store) as recorder:
            tenure.facts.publish(Elected(tenure.Token(7), 0), store.address, "jobs", tenure.Holder.fresh())
            check_eventually(lambda: handler.told == 1)
            store.error = None
            check_eventually(partial(recorded, recorder, 1))
    finally:
        log.removeHandler(handler)


def test_when_the_interpreter_leaves_nothing_is_written_any_more_nor_said(caplog: pytest.LogCaptureFixture) -> None:
    store = tenure.sync.open_store("memory://")
    store.office = Office()
    with keep(store.__enter__()) as recorder:
        store.office.close()
        tenure.facts.publish(Elected(tenure.Token(7), 0), "memory://", "jobs", tenure.Holder.fresh())
        check_eventually(lambda: recorder._thread is not None and not recorder._thread.is_alive())
        assert caplog.text == ""


def test_one_document_that_is_refused_keeps_none_waiting_that_the_store_has_had_and_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, holder = Frail(), tenure.Holder.fresh()
    store.bad = key_of("bad")
    with caplog.at_level(logging.INFO, "tenure.history"), keep(store) as recorder:
        for number in range(1, 6):
            tenure.facts.publish(Elected(tenure.Token(number), 0), store.address, "good", holder)
            check_eventually(partial(recorded, recorder, number))
            tenure.facts.publish(Elected(tenure.Token(number), 0), store.address, "bad", holder)
            check_eventually(lambda: "history is not recorded" in caplog.text)
        assert "history is recorded again" not in caplog.text
        assert recorder._pace.wait_s(time.monotonic()) == 0
    assert caplog.text.count("history is not recorded") == 1


def test_each_outage_is_said_once_also_while_one_document_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    store, holder = Frail(), tenure.Holder.fresh()
    store.bad = key_of("bad")

    def lead(token: int, election: str = "good") -> None:
        tenure.facts.publish(Elected(tenure.Token(token), 0), store.address, election, holder)

    def said(text: str, count: int) -> bool:
        return caplog.text.count(text) == count

    with caplog.at_level(logging.INFO, "tenure.history"), keep(store) as recorder:
        lead(1)
        check_eventually(partial(recorded, recorder, 1))
        lead(1, "bad")
        check_eventually(partial(said, "no right to this one", 1))
        for outage in (1, 2):
            store.error = Unreachable("frail://", "swap", "no way to it")
            lead(outage + 1)
            check_eventually(partial(said, "no way to it", outage))
            store.error = None
            check_eventually(partial(said, "history is recorded again, but for what is refused", outage))
        assert said("no right to this one", 1)
        store.bad = None
        check_eventually(partial(said, "history is recorded again", 3))
    assert caplog.text.count("refused", caplog.text.rindex("recorded again")) == 0


def test_one_document_of_another_version_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def lead_both() -> None:
        async with tenure.open_store("memory://") as store:
            await store.update("tenure/history/bad", lambda _: b'{"format":99}')
            async with keep(store):
                for name in ("bad", "good", "bad", "good"):
                    await tenure.Election(store, name, ttl=TTL_S).lead(nothing)

    with caplog.at_level(logging.INFO, "tenure.history"):
        anyio.run(lead_both)
    assert [one.getMessage()[:23] for one in caplog.records if one.name == "tenure.history"] == [
        "history is not recorded"
    ]


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

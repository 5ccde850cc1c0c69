"""The connections of a recorder: it has some only where they are of use, and leaves none open, whatever happens."""

from functools import partial
from pathlib import Path
from typing import Self

import pytest

import tenure
from tenure.apps.history import keep
from tenure.errors import ConfigError, StoreError, Unreachable
from tenure.facts.kinds import Elected
from tenure.office.opened import OpenStore
from tenure.office.thread import Office
from tenure.stores.base import Store
from tenure.stores.memory import MemoryStore
from tests.history.making import Frail, recorded
from tests.history.test_recorder import ElectsOnly
from tests.processes import check_eventually


class Handle(OpenStore):
    """An open store whose others reach the same engine, as those of a server do, and count who opens and closes them."""

    def __init__(self, engine: Store, counts: list[int] | None = None) -> None:
        self.office, self.engine = Office.of_this_process(), engine
        self.counts = [0, 0] if counts is None else counts  # opened, closed
        self.error: StoreError | None = None  # of the others, once they are open

    @property
    def store(self) -> Store:
        if self.error is not None:
            raise self.error
        return self.engine

    def another(self) -> Self:
        other = type(self)(self.engine, self.counts)
        other.error, self.error = self.error, None
        return other

    def __enter__(self) -> Self:
        self.counts[0] += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.counts[1] += 1


def lead(store: Handle, token: int, election: str = "jobs") -> None:
    tenure.facts.publish(Elected(tenure.Token(token), 0), store.engine.address, election, tenure.Holder.fresh())


def test_a_store_that_keeps_documents_is_reached_over_one_connection_that_is_closed_at_the_end() -> None:
    store = Handle(MemoryStore())
    with keep(store) as recorder:
        for token in (1, 2, 3):
            lead(store, token)
            check_eventually(partial(recorded, recorder, token))
        assert store.counts == [1, 0]
    assert store.counts == [1, 1]


def test_where_no_record_can_be_kept_no_connection_is_left_open_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", nobody)  # A container has no home.
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    store = Handle(ElectsOnly())
    with keep(store) as recorder:
        for number in range(10):
            lead(store, 1, f"e{number}")
        check_eventually(lambda: recorder.dropped_count == 10)
    opened, closed = store.counts
    assert (opened - closed, list(tmp_path.iterdir())) == (0, [])
    assert "you have no home folder" in caplog.text


def test_a_connection_over_which_nothing_can_be_asked_is_closed_before_the_next_is_opened() -> None:
    store = Handle(MemoryStore())
    with keep(store) as recorder:
        store.error = Unreachable("memory://", "open", "it went as soon as it came")
        lead(store, 1)
        check_eventually(partial(recorded, recorder, 1))
        assert store.counts == [2, 1]
    assert store.counts == [2, 2]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_whatever_ends_the_recorder_its_connection_is_closed() -> None:
    engine = Frail()
    store = Handle(engine)
    engine.error = SystemExit("a store that would end the process")
    with keep(store):
        lead(store, 1)
        check_eventually(lambda: store.counts == [1, 1])


def test_a_store_that_cannot_be_closed_does_not_end_the_recorder() -> None:
    class Stuck(Handle):
        def __exit__(self, *_: object) -> None:
            super().__exit__()
            raise LookupError("it is gone")

    store = Stuck(MemoryStore())
    with keep(store) as recorder:
        store.error = Unreachable("memory://", "open", "it went as soon as it came")
        lead(store, 1)
        check_eventually(partial(recorded, recorder, 1))
    assert store.counts == [2, 2]


def test_a_store_that_is_closed_before_its_recorder_has_what_was_heard_before() -> None:
    class Closed(Handle):
        is_closed = False

        @property
        def store(self) -> Store:
            if self.is_closed:
                raise ConfigError("store", "not open", "use it inside a block")
            return super().store

    store = Closed(MemoryStore())
    with keep(store) as recorder:
        store.is_closed = True
        lead(store, 1)
        check_eventually(partial(recorded, recorder, 1))

"""What is read of a history while offices change hands."""

import asyncio
from collections.abc import Sequence

import pytest

from tenure.apps.history import reading
from tenure.apps.history.reading import ask, concluded
from tenure.apps.history.records import Log
from tenure.model import Incumbent, Token
from tenure.stores.base import Store
from tenure.stores.memory import MemoryEngine, MemoryStore
from tests.history.making import ADA, BOB, T0_S, record

OPEN = record(1, ADA)
ENDED = record(1, ADA, ended_s=T0_S + 1, reason="resigned")
NEXT = record(2, BOB, began_s=T0_S + 2)
BOB_LEADS = Incumbent("jobs", BOB, Token(2))


class Passing(MemoryStore):
    """A store in which each look finds the next thing that has happened."""

    def __init__(self, logs: Sequence[Log], incumbents: Sequence[Incumbent | None]) -> None:
        super().__init__(MemoryEngine())
        self._logs, self._incumbents = list(logs), list(incumbents)

    async def read(self, election: str) -> Incumbent | None:
        assert election == "jobs"
        return self._incumbents.pop(0) if len(self._incumbents) > 1 else self._incumbents[0]

    def log(self) -> Log:
        return self._logs.pop(0) if len(self._logs) > 1 else self._logs[0]


@pytest.mark.parametrize(
    ("logs", "incumbents", "reasons"),
    [
        pytest.param([(OPEN,)], [None], ["vanished"], id="vanished"),
        pytest.param([(OPEN,), (ENDED,)], [None], ["resigned"], id="says so a moment later"),
        pytest.param([(OPEN,), (ENDED, NEXT)], [None, BOB_LEADS], ["resigned", None], id="another comes meanwhile"),
        pytest.param([(OPEN,), (ENDED,), (ENDED, NEXT)], [BOB_LEADS], ["resigned"], id="another has not said so yet"),
        pytest.param(
            [(OPEN,), (OPEN, NEXT)], [None, BOB_LEADS], ["vanished", None], id="another comes after who vanished"
        ),
        pytest.param([(OPEN,), (ENDED, NEXT)], [None], ["resigned", "vanished"], id="another comes and vanishes"),
    ],
)
def test_who_comes_while_a_history_is_read_has_not_vanished(
    logs: Sequence[Log],
    incumbents: Sequence[Incumbent | None],
    reasons: list[str | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def log(store: Store, _: str) -> Log:
        assert isinstance(store, Passing)
        return store.log()

    monkeypatch.setattr(reading, "_SAY_WITHIN_S", 0)
    monkeypatch.setattr(reading, "_log", log)
    store = Passing(logs, incumbents)
    found = concluded(store, asyncio.run(ask(store, "jobs")))
    assert [tenure.reason for tenure in found.tenures] == reasons

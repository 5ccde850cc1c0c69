"""Stores of documents that break one promise each."""

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tenure.model import Conflict, Document, Version
from tenure.stores.base import CanKeepDocuments
from tenure.stores.memory import MemoryEngine, MemoryStore
from tenure.testing import ContractBroken, MemoryRig, check_store
from tenure.testing.document_contract import DOCUMENTS
from tenure.testing.memory_rig import MemoryRig as Rig
from tenure.testing.store_contract import Make


def _version(document: Document | None) -> Version | None:
    return None if document is None else document.version


class TakesText(MemoryStore):
    async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        return await super().swap(key, value.decode("utf-8", "replace").encode(), version)


class CutsOff(MemoryStore):
    async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        return await super().swap(key, value[: 256 * 1024], version)


class ComparesNothing(MemoryEngine):
    def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:  # noqa: ARG002
        return super().swap(key, value, _version(self.fetch(key)))


class CreatesOverOthers(MemoryEngine):
    def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        return super().swap(key, value, version or _version(self.fetch(key)))


class TellsNothing(MemoryStore):
    async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        answer = await super().swap(key, value, version)
        return Conflict(None) if isinstance(answer, Conflict) else answer


class CountsByValue(MemoryEngine):
    def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        answer = super().swap(key, value, version)
        if isinstance(answer, Conflict):
            return answer
        self._documents[key] = written = Document(value, Version(value.hex()[:40]))
        return written


class LooksAndThenWrites(MemoryStore):
    async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        current = await self.fetch(key)
        if version != _version(current):
            return Conflict(current)
        await checkpoint()
        return self._engine.swap(key, value, _version(self._engine.fetch(key)))


class KeepsThemWithTheElection(MemoryEngine):
    def delete(self, election: str) -> None:
        super().delete(election)
        self._documents.pop(election, None)


class WritesHalfWhenCancelled(MemoryStore):
    async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        try:
            await checkpoint()
        except BaseException:
            self._engine.swap(key, b"half of " + value, version)
            raise
        return self._engine.swap(key, value, version)


class _Forgetful(Rig):
    async def restart(self) -> None:
        self.engine._documents.clear()


BROKEN: list[tuple[str, Make]] = [
    ("document-is-kept-as-it-was-written", MemoryRig.maker(store=TakesText)),
    ("document-is-kept-as-it-was-written", MemoryRig.maker(store=CutsOff)),
    ("write-needs-the-version-that-is-there", MemoryRig.maker(ComparesNothing)),
    ("write-needs-the-version-that-is-there", MemoryRig.maker(CreatesOverOthers)),
    ("write-needs-the-version-that-is-there", MemoryRig.maker(store=TellsNothing)),
    ("version-is-never-given-twice", MemoryRig.maker(CountsByValue)),
    ("one-of-many-writes-wins", MemoryRig.maker(store=LooksAndThenWrites)),
    ("documents-are-independent", MemoryRig.maker(KeepsThemWithTheElection)),
    ("cancelled-write-is-whole-or-nothing", MemoryRig.maker(store=WritesHalfWhenCancelled)),
    ("documents-survive-restart", _Forgetful.maker()),
]


def test_every_promise_about_documents_can_fail() -> None:
    assert {promise for promise, _ in BROKEN} == set(DOCUMENTS)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(("promise", "make"), BROKEN, ids=[promise for promise, _ in BROKEN])
def test_a_broken_keeper_is_told_which_promise_it_breaks(promise: str, make: Make, backend: str) -> None:
    with pytest.raises(ContractBroken) as caught:
        anyio.run(check_store, make, backend=backend)
    assert caught.value.promise == promise


def test_a_store_without_documents_keeps_the_contract() -> None:
    class ElectsOnly(MemoryStore):
        fetch = swap = None  # type: ignore[assignment]

    assert not isinstance(ElectsOnly(), CanKeepDocuments)
    anyio.run(check_store, MemoryRig.maker(store=ElectsOnly))

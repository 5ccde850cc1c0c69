"""The part of the contract that concerns documents: a value under a key, replaced by whoever names its version (``stores/base``).

Checked for every store that keeps any. A store that writes over what it was not shown loses somebody's work without a word.
"""

from collections.abc import Awaitable, Callable
from functools import partial

import anyio

from tenure.model import Conflict, Document, Version
from tenure.stores.base import CanKeepDocuments
from tenure.stores.trail import VALUE_BYTES_MAX
from tenure.testing.rig import Play, Promises, expect
from tenure.testing.waiting_contract import CANCELLED_AFTER, cancelled

DOCUMENTS = Promises()

# Every byte there is, which no text and no encoding has; what a document is at its largest, with its trail; and nothing.
_VALUES = (bytes(range(256)), b"\xff" * (VALUE_BYTES_MAX + 1024), b"")


class _Keeper:
    """One connection, with one expectation for each answer that it can give."""

    def __init__(self, store: CanKeepDocuments, key: str) -> None:
        self.store, self.key = store, key

    async def writes(self, value: bytes, version: Version | None) -> Document:
        answer = await self.store.swap(self.key, value, version)
        expect(isinstance(answer, Document), f"a document at {version!r} was to be replaced at it, and got {answer}")
        assert isinstance(answer, Document)
        expect(answer.value == value, f"{value[:20]!r} was written, and the answer has {answer.value[:20]!r}")
        return answer

    async def conflicts(self, version: Version | None, current: Document | None) -> None:
        answer = await self.store.swap(self.key, b"of one who has not seen it", version)
        expect(answer == Conflict(current), f"a write named {version!r} where {_told(current)} is, and got {answer}")

    async def sees(self, document: Document | None) -> None:
        seen = await self.store.fetch(self.key)
        expect(seen == document, f"fetch tells {_told(seen)} where {_told(document)} was written")


def _told(document: Document | None) -> str:
    return "nothing" if document is None else f"{document.value[:20]!r} at {document.version!r}"


async def _keepers(play: Play, count: int, suffix: str = "") -> list[_Keeper]:
    """Return keepers of one document, on connections of their own; nobody: the store promises nothing of the kind."""
    stores = [candidate.store for candidate in await play.enter(count)]
    return [_Keeper(store, play.election + suffix) for store in stores if isinstance(store, CanKeepDocuments)]


_Check = Callable[[Play, list[_Keeper]], Awaitable[None]]


def _keep(name: str, keeper_count: int) -> Callable[[_Check], _Check]:
    """Register a check under the promise that is broken if it fails; it is given so many keepers of one document."""

    def register(check: _Check) -> _Check:
        @DOCUMENTS.keep(name)
        async def checked(play: Play) -> None:
            keepers = await _keepers(play, keeper_count)
            if keepers:
                await check(play, keepers)

        return check

    return register


@_keep("document-is-kept-as-it-was-written", 2)
async def _kept(_: Play, keepers: list[_Keeper]) -> None:
    writer, reader = keepers
    await reader.sees(None)
    written: Document | None = None
    for value in _VALUES:
        written = await writer.writes(value, None if written is None else written.version)
        await reader.sees(written)


@_keep("write-needs-the-version-that-is-there", 2)
async def _compared(play: Play, keepers: list[_Keeper]) -> None:
    one, other = keepers
    first = await one.writes(b"first", None)
    await other.conflicts(None, first)
    second = await other.writes(b"second", first.version)
    await one.conflicts(first.version, second)
    await one.conflicts(None, second)
    await one.sees(second)
    (absent,) = await _keepers(play, 1, "/absent")
    await absent.conflicts(first.version, None)
    await absent.sees(None)


@_keep("version-is-never-given-twice", 1)
async def _versions(_: Play, keepers: list[_Keeper]) -> None:
    (keeper,) = keepers
    written = await keeper.writes(b"a", None)
    versions = [written.version]
    for value in (b"b", b"a", b"a", b"b"):
        written = await keeper.writes(value, written.version)
        expect(written.version not in versions, f"{value!r} got a version of {versions} once more: {written.version!r}")
        await keeper.conflicts(versions[-1], written)
        versions.append(written.version)


@_keep("one-of-many-writes-wins", 5)
async def _raced(_: Play, keepers: list[_Keeper]) -> None:
    written = await _race(keepers, None)
    await _race(keepers, written)


async def _race(keepers: list[_Keeper], before: Document | None) -> Document:
    version, answers = None if before is None else before.version, list[Document | Conflict]()

    async def write(keeper: _Keeper, number: int) -> None:
        answers.append(await keeper.store.swap(keeper.key, b"%d" % number, version))

    async with anyio.create_task_group() as tasks:
        for number in range(4 * len(keepers)):  # between connections, and between the calls on one
            tasks.start_soon(write, keepers[number % len(keepers)], number)
    winners = [answer for answer in answers if isinstance(answer, Document)]
    expect(len(winners) == 1, f"{len(answers)} wrote at once on top of {_told(before)}, and {len(winners)} won")
    losers = [answer for answer in answers if answer not in winners]
    told = losers.count(Conflict(winners[0])) == len(losers)
    expect(told, f"{_told(winners[0])} won, and the others were told {losers}")
    await keepers[0].sees(winners[0])
    return winners[0]


@_keep("documents-are-independent", 1)
async def _independent(play: Play, keepers: list[_Keeper]) -> None:
    (keeper,) = keepers
    leader, rival = await play.enter(2)
    grant = await leader.wins()
    await keeper.sees(None)
    written = await keeper.writes(b"of the same name", None)
    for beside in [*await _keepers(play, 1, "/beside"), *await _keepers(play, 1, "-beside")]:
        await beside.sees(None)
        await beside.writes(b"beside", None)
    await rival.waits()
    await leader.keeps(grant)
    await play.rig.delete_record(play.election)
    await keeper.sees(written)
    await rival.wins()
    await rival.leaves()
    await rival.sees(None)
    await keeper.sees(written)


@_keep("cancelled-write-is-whole-or-nothing", 2)
async def _cancelled_write(_: Play, keepers: list[_Keeper]) -> None:
    keeper, other = keepers
    written = await keeper.writes(b"before", None)
    for turn_count in CANCELLED_AFTER:
        value, version = b"%d" % turn_count, written.version
        await cancelled(partial(keeper.store.swap, keeper.key, value, version), turn_count)
        # It may yet arrive; but of two that name one version, one lands.
        answer = await other.store.swap(other.key, b"other", version)
        current = answer.current if isinstance(answer, Conflict) else answer
        if current is None or current.value not in {value, b"other"}:
            expect(False, f"a cancelled write of {value!r} and one of b'other' at {version!r} left {_told(current)}")
        assert current is not None
        await keeper.sees(current)
        written = current


@_keep("documents-survive-restart", 1)
async def _restarted(play: Play, keepers: list[_Keeper]) -> None:
    written = await keepers[0].writes(b"before", None)
    await play.rig.restart()
    (keeper,) = await _keepers(play, 1)
    await keeper.sees(written)
    again = await keeper.writes(b"after", written.version)
    expect(again.version != written.version, f"after a restart a write got the version {written.version!r} again")

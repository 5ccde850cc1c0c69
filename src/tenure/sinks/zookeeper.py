"""Nodes in ZooKeeper as a sink: the fence is checked in the caller's own multi. Runs on asyncio.

The fence is a node whose data is the highest token seen, with one child that is named by that token. A write is one multi:
check that the child of this token is there, and do what the caller asks. A successor's seal replaces the child by its own,
so whatever an older leader sends afterwards finds nothing there, however long it was on its way.

ZooKeeper's ``check`` compares versions and no values. The version of a fence would do while nobody deletes it; once it is
deleted and made anew, versions begin again, and an old leader's would fit one day. A name does not come back.
"""

from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from tenure.clients.zookeeper import Code, Fault, Session, SessionOver, Settings, settings_of, told
from tenure.clients.zookeeper.asking import Asking
from tenure.clients.zookeeper.paths import make_path, one_name
from tenure.clients.zookeeper.wire import (
    ANY_VERSION,
    Request,
    Stat,
    check,
    create,
    delete,
    get_children,
    get_data,
    multi,
    set_data,
    sync,
)
from tenure.clock import BootClock
from tenure.errors import OutcomeUnknown, Refused
from tenure.model import Token
from tenure.sinks.base import Bound, Verify
from tenure.sinks.digits import digits_of, number_in
from tenure.sinks.judging import JudgingSink

FENCES: Final = "/.tenure-fences"
# Each try that fails is another one's seal that came between; there are not many leaders at once.
_TRIES_MAX: Final = 20
SESSION_MS: Final = 10_000  # Nothing lives by it.
CAME_BETWEEN: Final = (Code.NO_NODE, Code.BAD_VERSION, Code.NODE_EXISTS)


class BoundZooKeeper:
    """A sink as one tenure may use it. Fails with StaleToken once that tenure has been succeeded."""

    __slots__ = ("_sink", "_term")

    def __init__(self, sink: "ZooKeeperSink", term: Bound) -> None:
        self._sink, self._term = sink, term

    async def create(self, path: str, data: bytes = b"", *, sequential: bool = False) -> str:
        """Create a node that stays, and return its path, which for a sequential one has a number behind it."""
        (created,) = await self.multi(create(path, data, self._sink.settings.acl, sequential=sequential))
        return str(created)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Put something else into a node, if it has this version."""
        (stat,) = await self.multi(set_data(path, data, version))
        assert isinstance(stat, Stat)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node, if it has this version."""
        await self.multi(delete(path, version))

    async def multi(self, *parts: Request[Any]) -> list[Any]:
        """Carry out a multi of your own if this tenure has not been succeeded, in one step with that check.

        The parts are made by the functions of ``tenure.clients.zookeeper.wire``; what each of them answers is returned.
        """
        return await self._sink.multi(self._term, *parts)


class ZooKeeperSink(JudgingSink):
    """Nodes in an ensemble that refuse writes of a leader that was succeeded: ``async with ZooKeeperSink(url) as sink``.

    ``url`` is one as for ``open_store``. Its chroot goes before ``fences``, below which the fences are, and before nothing
    else: paths are whole ones. With ``verify``, a token higher than any seen is confirmed by it first.

    Fences only what is written through it, or with ``guard`` in a multi of another client. Does not promise to know a write
    whose answer was lost: that raises OutcomeUnknown, and may have been carried out.
    """

    def __init__(self, url: str, *, fences: str = FENCES, verify: Verify | None = None, **options: str) -> None:
        super().__init__(verify)
        self.settings: Settings = settings_of(url, **options)
        self._fences = self.settings.chroot + fences
        self._asking = Asking(self.settings, SESSION_MS, BootClock())

    def __repr__(self) -> str:
        return f"<zookeeper sink {self.settings.address}>"

    async def __aenter__(self) -> Self:
        with told(self.settings.address, "open"):
            await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._asking.close()

    def bind(self, term: Bound) -> BoundZooKeeper:
        """Return the sink as ``term`` may use it. It fails once that tenure has been succeeded."""
        return BoundZooKeeper(self, term)

    def guard(self, term: Bound) -> str:
        """Return the path of the node that a multi of another client must check (any version), to count under ``term``.

        Holds only once the fence was sealed with this token, which an election does for the sinks that it was given.
        """
        return f"{self._path(term.fence)}/{digits_of(term.token)}"

    async def multi(self, term: Bound, *parts: Request[Any]) -> list[Any]:
        """Carry out ``parts`` under ``term``. Raises StaleToken, and changes nothing, if a larger token was here.

        Raises Refused if one of the parts cannot be carried out; its number stands in the text.
        """
        fenced = multi(check(self.guard(term)), *parts)
        with told(self.settings.address, "write"):
            for _ in range(_TRIES_MAX):
                session = await self._open()
                try:
                    return (await session.ask(fenced))[1:]
                except SessionOver:  # which has carried out nothing
                    continue
                except Fault as fault:
                    if fault.part > 0:
                        detail = f"part {fault.part} of the multi cannot be carried out (error {fault.code})"
                        raise Refused(self.settings.address, "write", detail) from fault
                    if fault.code != Code.NO_NODE:
                        raise
                await self.seal(term.fence, Token(term.token))  # Higher than any seen; or stale, and then this says so.
        detail = f"the fence changed with each of {_TRIES_MAX} tries, and nothing was written: try again"
        raise Refused(self.settings.address, "write", detail)

    async def seal(self, fence: str, token: Token) -> None:
        """Raise the fence to ``token`` (see ``Sink``)."""
        with told(self.settings.address, "seal"):
            for _ in range(_TRIES_MAX):
                with suppress(SessionOver):  # which has carried out nothing
                    if await self._try_to_seal(await self._open(), fence, token):
                        return
        raise OutcomeUnknown(self.settings.address, "seal", "the fence changed with every try")

    async def _try_to_seal(self, session: Session, fence: str, token: Token) -> bool:
        """Say whether the fence stands at ``token`` now. False: somebody came between."""
        path, own = self._path(fence), digits_of(token)
        highest, version, children = await self._look(session, path)
        # If the fence was deleted and made anew between the two looks, the version of the old one may fit it, and the child
        # is the new one's. So the child counts as well: what was sealed with it is not lowered.
        numbers = [int(name) for name in children if name.isascii() and name.isdigit()]
        await self.judge(fence, token, max([highest, *numbers]))
        if own in children:
            return True
        return await self._raise(session, path, own, version, children)

    async def _raise(self, session: Session, path: str, own: str, version: int | None, children: list[str]) -> bool:
        """Replace whatever stands there by ``own``. False: somebody came between."""
        acl = self.settings.acl
        first: Request[Any] = create(path, own.encode(), acl)
        if version is None:
            await make_path(session, self._fences, acl)
        else:
            first = set_data(path, own.encode(), version)
        old = [delete(f"{path}/{name}") for name in children]
        try:
            await session.ask(multi(first, *old, create(f"{path}/{own}", b"", acl)))
        except Fault as fault:
            if fault.code not in CAME_BETWEEN:
                raise
            return False
        return True

    async def _look(self, session: Session, path: str) -> tuple[int, int | None, list[str]]:
        """Return the highest token seen, the version of the fence (None: there is none yet), and the names below it."""
        await session.linked()
        caught_up, asked, listed = (
            session.send(sync(path)),
            session.send(get_data(path)),
            session.send(get_children(path)),
        )
        await session.result(caught_up)
        try:
            data, stat = await session.result(asked)
            children, _ = await session.result(listed)
        except Fault as fault:
            if fault.code != Code.NO_NODE:
                raise
            return 0, None, []
        return number_in(data, path, self.settings.address), stat.version, children

    def _path(self, fence: str) -> str:
        return f"{self._fences}/{one_name(fence)}"

    async def _open(self) -> Session:
        return await self._asking.session()

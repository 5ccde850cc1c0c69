"""Who asks ZooKeeper nothing that a tenure rests on: what many share, what is asked again, and what is not."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from tenure.clients.zookeeper import LinkLost, NotReached, Session, settings_of
from tenure.clients.zookeeper.asking import Asking
from tenure.clients.zookeeper.wire import Event, Kind, get_data, set_data, sync
from tenure.clock import BootClock

LIMIT_S = 20
SHORT_S = 0.3  # of which three are waited for; and enough for a server of this process to answer
LONG_S = 600  # Nobody waits for so long here.
QUESTIONS = 8
SESSION = 0x7E57


class Server:
    """Speaks as much of ZooKeeper's protocol as is asked of it, over a socket with little room."""

    def __init__(self) -> None:
        self.welcomes, self.reads, self.hang_ups, self.mute = True, True, 0, False
        self.greeted_count = 0
        self.asked: list[int] = []
        self.greeted, self.left = asyncio.Event(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.endpoint = f"127.0.0.1:{listening.getsockname()[1]}"
        self._server = await asyncio.start_server(self._accept, sock=listening, limit=4096)

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await _message(reader)
                self.greeted_count += 1
                self.greeted.set()
                if self.welcomes:
                    writer.write(struct.pack(">iiiqi16s", 36, 0, LONG_S * 1000, SESSION, 16, bytes(16)))
                while self.welcomes and self.reads:
                    xid, kind = struct.unpack_from(">ii", await _message(reader))
                    if kind != Kind.PING:
                        self.asked.append(kind)
                    if self.hang_ups and kind != Kind.CLOSE:
                        self.hang_ups -= 1
                        return
                    if not self.mute:
                        writer.write(struct.pack(">iiqi", 16, xid, 7, 0))
                await self.left.wait()
                writer.write_eof()
                await asyncio.Event().wait()  # It reads nothing any more, and does not break the connection either.
        finally:
            writer.transport.abort()


async def _message(reader: asyncio.StreamReader) -> bytes:
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(length)


@asynccontextmanager
async def serving(count: int = 1) -> AsyncIterator[list[Server]]:
    servers = [Server() for _ in range(count)]
    for server in servers:
        await server.start()
    try:
        async with asyncio.timeout(LIMIT_S):
            yield servers
    finally:
        for server in servers:
            await server.stop()


@asynccontextmanager
async def asking_of(servers: list[Server], timeout_s: float = LONG_S) -> AsyncIterator[Asking]:
    url = f"zookeeper://{','.join(server.endpoint for server in servers)}?timeout={timeout_s}"
    asking = Asking(settings_of(url), 1, BootClock())
    try:
        yield asking
    finally:
        await asking.close()


async def synced(session: Session) -> None:
    await session.ask(sync("/"))


async def written(session: Session) -> None:
    await session.ask(set_data("/x", b""))


def test_many_questions_at_once_try_each_server_that_is_mute_at_most_twice() -> None:
    async def story() -> None:
        async with serving(3) as servers, asking_of(servers, SHORT_S) as asking:
            for server in servers:
                server.welcomes = False
            answers = await asyncio.gather(*(asking.ask(synced) for _ in range(QUESTIONS)), return_exceptions=True)
            assert [type(answer) for answer in answers] == [NotReached] * QUESTIONS
            assert len({str(answer) for answer in answers[1:]}) == 1  # All but the first came while that one tried.
            assert [server.greeted_count for server in servers] == [2] * 3
            servers[1].welcomes = True
            await asking.ask(synced)  # Who comes later tries again.

    asyncio.run(story())


def test_who_comes_after_a_server_is_back_is_not_told_of_an_attempt_that_began_before() -> None:
    async def story() -> None:
        async with serving(2) as servers, asking_of(servers, SHORT_S) as asking:
            for server in servers:
                server.welcomes = False
            first = asyncio.ensure_future(asking.ask(synced))
            for server in servers:
                await server.greeted.wait()
            servers[0].welcomes = True
            await asyncio.gather(*(asking.ask(synced) for _ in range(QUESTIONS)))
            with pytest.raises(NotReached):
                await first

    asyncio.run(story())


def test_who_waited_for_an_opening_that_was_cancelled_goes_on_with_it() -> None:
    async def story() -> None:
        async with serving() as servers, asking_of(servers) as asking:
            (server,) = servers
            server.welcomes = False
            opening, *waiting = [asyncio.ensure_future(asking.session()) for _ in range(QUESTIONS)]
            await server.greeted.wait()
            server.welcomes = True
            opening.cancel()
            sessions = await asyncio.gather(*waiting)
            assert len(set(sessions)) == 1
            assert server.greeted_count == 2
            assert opening.cancelled()

    asyncio.run(story())


@pytest.mark.parametrize(("question", "asked"), [(synced, [Kind.SYNC] * 2), (written, [Kind.SET_DATA])])
def test_what_changes_nothing_is_asked_once_more_when_its_connection_breaks(
    question: Callable[[Session], Awaitable[None]], asked: list[Kind]
) -> None:
    async def story() -> None:
        async with serving() as servers, asking_of(servers) as asking:
            (server,) = servers
            server.hang_ups = 2
            with pytest.raises(LinkLost):
                await asking.ask(question)
            assert server.asked == asked

    asyncio.run(story())


def test_a_question_whose_connection_breaks_is_answered_on_the_next() -> None:
    async def story() -> None:
        async with serving() as servers, asking_of(servers) as asking:
            servers[0].hang_ups = 1
            await asking.ask(synced)
            assert servers[0].asked == [Kind.SYNC] * 2

    asyncio.run(story())


def test_what_a_server_left_unanswered_for_as_long_as_it_may_is_not_asked_again() -> None:
    async def story() -> None:
        async with serving() as servers, asking_of(servers, SHORT_S) as asking:
            (server,) = servers
            server.mute = True
            with pytest.raises(LinkLost):
                await asking.ask(synced)
            assert server.asked == [Kind.SYNC]

    asyncio.run(story())


def test_a_server_that_hung_up_is_left_at_once_whatever_it_has_not_read() -> None:
    async def story() -> None:
        async with serving() as servers, asking_of(servers) as asking:
            (server,) = servers
            server.reads = False
            session = await asking.session()
            link = session._link
            assert link is not None
            assert link._transport is not None
            lost = session.send(set_data("/x", bytes(16 * 2**20)))  # more than sockets have room for
            assert link._transport.get_write_buffer_size() > 0
            server.reads = True  # on the next connection
            server.left.set()
            with pytest.raises(LinkLost):
                await session.result(lost)
            await session.linked()
            assert session._link is not link

    asyncio.run(story())


class FewThreads(ThreadPoolExecutor):
    """Has no thread for as many calls as it is told."""

    refusals = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.refusals:
            self.refusals -= 1
            raise RuntimeError("can't start new thread")
        return super().submit(fn, *args, **kwargs)


def test_a_moment_without_a_thread_to_look_up_a_name_ends_no_session() -> None:
    async def story() -> None:
        threads = FewThreads()
        asyncio.get_running_loop().set_default_executor(threads)
        async with serving() as (server,):
            server.endpoint = server.endpoint.replace("127.0.0.1", "localhost")
            async with asking_of([server]) as asking:
                session = await asking.session()
                threads.refusals, server.hang_ups = 3, 1
                await asking.ask(synced)
                assert threads.refusals == 0
                assert await asking.session() is session

    asyncio.run(story())


def test_a_session_that_nobody_keeps_connected_is_over_and_another_one_is_opened() -> None:
    async def story() -> None:
        async with serving() as servers, asking_of(servers) as asking:
            session, told = await asking.session(), list[Event]()

            def fail() -> None:
                session.send(get_data("/x"), told.append)
                raise MemoryError

            session.on_link = fail
            servers[0].hang_ups = 1
            with pytest.raises(LinkLost):
                await synced(session)
            assert session._task is not None
            await asyncio.wait([session._task])
            assert session.over == "nobody keeps the session connected any more: MemoryError()"
            assert told == [Event.LOST]
            await asking.ask(synced)
            assert await asking.session() is not session
            await session.close()

    asyncio.run(story())

"""An event loop whose time leaps ahead when it is told to, so that a minute of silence takes none."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from tests.clients.test_http import Server


class LeapingLoop(asyncio.SelectorEventLoop):
    """Real sockets, and a clock of its own."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s

    def leap(self, s: float) -> None:
        """Let time pass. What is due by then is done when the loop comes round."""
        self.ahead_s += s


def play_leaping(
    story: Callable[[LeapingLoop], Coroutine[Any, Any, None]], make: Callable[[], LeapingLoop] = LeapingLoop
) -> None:
    async def told() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, LeapingLoop)
        await story(loop)

    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(told())


class Heard(Server):
    """Says also when a connection has come, and when one has gone."""

    def __init__(self, *answers: bytes) -> None:
        super().__init__(*answers)
        self.came, self.went = asyncio.Event(), asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came.set()
        try:
            await self.answer(reader, writer)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            self.went.set()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await super().serve(reader, writer)


class Mute(Heard):
    """Takes connections and says nothing: who wants TLS waits for it in vain."""

    async def answer(self, reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.read()

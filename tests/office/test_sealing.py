"""Sinks are sealed before the body: what comes of one that fails, refuses or can never be sealed."""

from collections.abc import Awaitable, Callable

import pytest

from tenure.election import Election
from tenure.errors import ConfigError, StaleToken, UnverifiedToken
from tenure.model import Token
from tenure.office.tenure import Tenure
from tenure.stores.memory import MemoryStore
from tenure.timing import Timing

TTL = 2.0
# An answer has three seconds to come in before the question is repeated, and whoever steps back does so for a moment only.
PATIENT = Timing.of(ttl=4, heartbeat=0.2, attempt_timeout=3)
On = Callable[[Callable[[], Awaitable[None]]], None]


class RecordingSink:
    """A sink that says what was asked of it, and refuses or fails on demand."""

    def __init__(self, *answers: Exception) -> None:
        self.sealed: list[tuple[str, int]] = []
        self._answers = list(answers)

    async def seal(self, fence: str, token: Token) -> None:
        self.sealed.append((fence, token))
        if self._answers:
            raise self._answers.pop(0)


def test_sinks_are_sealed_under_the_fence_of_the_tenure_before_the_body(on: On) -> None:
    async def test() -> None:
        sink = RecordingSink()
        async with Election(MemoryStore(), "x", ttl=TTL).once([sink]) as term:
            assert sink.sealed == [(term.fence, term.token)]
            assert term.fence.endswith("/x")

    on(test)


def test_a_sink_that_fails_is_sealed_again_and_one_that_refuses_ends_the_try(on: On) -> None:
    async def test() -> None:
        sink = RecordingSink(OSError("not now"), StaleToken(1, 2))
        async with Election(MemoryStore(), "x", timing=PATIENT).once([sink]) as term:
            assert [token for _, token in sink.sealed] == [1, 1, 2]
            assert term.token == 2

    on(test)


def test_a_sink_that_is_told_a_token_nobody_confirms_ends_the_try(on: On) -> None:
    async def test() -> None:
        sink = RecordingSink(UnverifiedToken(1, 0))
        async with Election(MemoryStore(), "x", timing=PATIENT).once([sink]) as term:
            assert term.token == 2

    on(test)


def test_a_sink_that_can_never_be_sealed_ends_the_standing_with_its_error(on: On) -> None:
    async def test() -> None:
        broken = ConfigError("database", "/nowhere", "must be a file")
        election = Election(MemoryStore(), "x", ttl=TTL)

        async def body(_: Tenure) -> None:
            pytest.fail("it led without its fence")

        with pytest.raises(ConfigError) as refused:
            await election.lead(body, sinks=[RecordingSink(broken)])
        assert refused.value is broken
        with pytest.raises(ConfigError) as refused:
            async with election.once([RecordingSink(broken)]):
                pytest.fail("it led without its fence")
        assert refused.value is broken
        assert await election.incumbent() is None

    on(test)

"""``eligible=``: who says of itself that it must not lead gives a grant back before anything is sealed."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from tenure.election import Election
from tenure.errors import ConfigError
from tenure.model import Token
from tenure.office.tenure import Tenure
from tenure.office.warm_loop import Standby
from tenure.stores.memory import MemoryEngine, MemoryStore
from tenure.timing import Timing

# An answer has three seconds to come in before the question is repeated, and whoever steps back does so for a moment only.
PATIENT = Timing.of(ttl=4, heartbeat=0.2, attempt_timeout=3)
On = Callable[[Callable[[], Awaitable[None]]], None]


class RecordingSink:
    """A sink that remembers with which tokens it was sealed."""

    def __init__(self) -> None:
        self.sealed: list[int] = []

    async def seal(self, fence: str, token: Token) -> None:  # noqa: ARG002
        self.sealed.append(token)


class Answers:
    """What is answered to the question, one after the other; the last one for ever."""

    def __init__(self, *answers: bool | Exception | None) -> None:
        self.left, self.asked = list(answers), 0

    async def __call__(self) -> bool:
        self.asked += 1
        answer = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            await anyio.sleep_forever()
        return bool(answer)


async def token_of(term: Tenure) -> int:
    return term.token


@pytest.mark.parametrize("warm", [False, True])
def test_who_is_not_eligible_gives_office_back_without_a_seal_or_a_body_and_is_asked_at_the_next_grant(
    on: On, warm: bool
) -> None:
    async def prepare(standby: Standby) -> None:
        standby.ready()

    async def test() -> None:
        sink, answers = RecordingSink(), Answers(False, False, True)
        election = Election(MemoryStore(), "x", timing=PATIENT)
        token = await election.lead(token_of, sinks=[sink], eligible=answers, prepare=prepare if warm else None)
        assert (token, sink.sealed, answers.asked) == (3, [3], 3)

    on(test)


def test_an_office_that_is_given_back_is_free_for_who_is_eligible(on: On) -> None:
    async def test() -> None:
        engine = MemoryEngine()
        never = Answers(False)
        async with anyio.create_task_group() as tasks:
            unfit = Election(MemoryStore(engine), "x", ttl=20)
            tasks.start_soon(lambda: unfit.lead(token_of, eligible=never))
            while not never.asked:
                await anyio.sleep(0.01)
            with anyio.fail_after(10):  # much less than a lease
                assert await Election(MemoryStore(engine), "x", ttl=20).lead(token_of, eligible=Answers(True)) > 1
            tasks.cancel_scope.cancel()

    on(test)


def test_a_question_that_fails_or_hangs_is_asked_again(on: On) -> None:
    async def test() -> None:
        answers = Answers(OSError("not now"), None, True)
        timing = Timing.of(ttl=2, heartbeat=0.2, attempt_timeout=1)  # One question hangs, and takes all of that.
        await Election(MemoryStore(), "x", timing=timing).lead(token_of, eligible=answers)
        assert answers.asked == 3

    on(test)


def test_a_question_that_can_never_be_answered_ends_the_standing(on: On) -> None:
    async def test() -> None:
        election = Election(MemoryStore(), "x", timing=PATIENT)
        with pytest.raises(ConfigError, match="must be"):
            await election.lead(token_of, eligible=Answers(ConfigError("database", "x", "must be there")))
        assert await election.incumbent() is None

    on(test)

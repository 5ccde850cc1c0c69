"""How a sink asks ``verify=``, which may be a plain function that blocks or an async one."""

from inspect import isawaitable, iscoroutine, iscoroutinefunction

from anyio import to_thread

from tenure.model import Token
from tenure.sinks.base import Verify


async def confirmed(verify: Verify, fence: str, token: Token) -> bool:
    """Ask in a thread, since it may block, unless it is an ``async def``, which is awaited here.

    If this is cancelled, nobody waits for the answer: it is a question, and a leader that is over must not wait for it.
    """
    if iscoroutinefunction(verify):
        return bool(await verify(fence, token))
    # In a tuple: trio takes a thread that returns a coroutine for a mistake.
    (answer,) = await to_thread.run_sync(lambda: (verify(fence, token),), abandon_on_cancel=True)
    return await answer if isawaitable(answer) else answer


def confirmed_now(verify: Verify | None, fence: str, token: int) -> bool:
    """Ask from a thread that cannot await. An ``async`` verify can only be asked by a seal, so here it confirms nothing."""
    answer = verify is not None and verify(fence, Token(token))
    if iscoroutine(answer):
        answer.close()
    return answer if isinstance(answer, bool) else False

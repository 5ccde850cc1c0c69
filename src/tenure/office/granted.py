"""The store's own word on a token, as ``verify=`` of a sink: what was never granted raises no fence.

Rules of this file
1. Confirmed is what the incumbent holds, and nothing else. A lower token belongs to a tenure that has ended, and a higher one
   to nobody: "not higher than the last one granted" would let a leader of long ago raise the fence of a new sink.
2. That the incumbent may be succeeded right after the answer does no harm: its token was granted, so its successor's is higher.
3. Yes needs an answer. A store that cannot be asked, or does not answer in time, is an error of the store, as for any other
   question: the fence stays where it is, and whoever seals asks again.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from tenure.errors import ConfigError, OutcomeUnknown
from tenure.model import Token
from tenure.office.desk import check_name
from tenure.office.opened import OpenStore, wait_there
from tenure.office.thread import Office
from tenure.stores.base import Store
from tenure.timing import Seconds, to_ns

_WITHIN_S: Final = 5.0  # Most stores give up before that by themselves. A seal is tried again, and each try asks anew.


def granted_by(store: OpenStore | Store, *, within: Seconds = _WITHIN_S) -> Callable[[str, Token], bool]:
    """Return a ``verify=`` for sinks that confirms a token iff ``store`` says that the leader in office holds it.

    ``store`` is as an Election takes it, and has to be open whenever the sink is asked for a token that is new to it. Fences of
    another store are never confirmed, nor are tenures that have ended. Works for sinks that await and that block, from any thread
    but the office's own. Raises StoreError if the store cannot be asked or does not answer ``within`` that time.
    """
    within_ns = to_ns("within", within)
    if within_ns <= 0:
        raise ConfigError("within", within, "must be more than 0")

    def verify(fence: str, token: Token) -> bool:
        asked = store.store if isinstance(store, OpenStore) else store
        office = store.office if isinstance(store, OpenStore) else Office.of_this_process()
        answer: bool = wait_there(office, _is_granted(asked, fence, token, within_ns / 1e9))
        return answer

    return verify


async def _is_granted(store: Store, fence: str, token: Token, within_s: float) -> bool:
    """Ask the store, on the office's loop."""
    election = fence.removeprefix(f"{store.identity}/")
    if election == fence:
        return False
    try:
        check_name(election)
    except ConfigError:  # Nobody can have been elected under such a name, whoever says so.
        return False
    try:
        async with asyncio.timeout(within_s):
            incumbent = await store.read(election)
    except TimeoutError as error:
        raise OutcomeUnknown(store.address, "verify", f"no answer within {within_s:g} s") from error
    return incumbent is not None and incumbent.token == token

"""The roll call: the quorum confirms a session once for all its places, and watches tell which of their nodes are gone."""

from typing import TYPE_CHECKING, Any, Final

from tenure.clients.zookeeper import Code, Fault, Session
from tenure.clients.zookeeper.wire import get_data
from tenure.stores.entry import read_entry
from tenure.stores.zookeeper.leases import Lease, Place

if TYPE_CHECKING:
    import asyncio

# So many nodes are read at once. Ten thousand leaders would need ten megabytes for it in the first of their renewals, and never
# again.
_READ_AT_ONCE: Final = 100


async def confirm(lease: Lease, places: list[Place]) -> None:
    """Have the quorum confirm the session once. Whatever happened to a watched node is told before that is answered."""
    await lease.steady()
    session = lease.session
    while there := [place for place in places if place.node]:
        await session.linked()
        if await _is_there(there[0], session, lease.prove(there[0].node)):
            break
    # Nodes that are not watched yet, no longer, or have changed: to be read, once.
    unread = [place for place in there if not place.armed]
    for first in range(0, len(unread), _READ_AT_ONCE):
        await _read(unread[first : first + _READ_AT_ONCE], session)


async def _read(places: list[Place], session: Session) -> None:
    """Read what these nodes say, and have the engine tell of the next change."""
    await session.linked()
    places = [place for place in places if place.node]  # Some may have been deleted while others were read.
    for place in places:
        place.has_news = False
    answers = [session.send(get_data(place.node, watch=True), place) for place in places]
    for place, answer in zip(places, answers, strict=True):
        if await _is_there(place, session, answer):
            text, _ = await session.result(answer)
            place.resign_asked = read_entry(text, place.name).resign_asked
            place.armed = not place.has_news


async def _is_there(place: Place, session: Session, answer: "asyncio.Future[Any]") -> bool:
    try:
        await session.result(answer)
    except Fault as fault:
        if fault.code != Code.NO_NODE:
            raise
        place.forget()
        return False
    return True

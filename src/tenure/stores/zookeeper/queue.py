"""What the children of an election's node say: who is first, whom to wait for, and what of ours must go."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tenure.clients.zookeeper import Code, Fault, Session
from tenure.clients.zookeeper.wire import Stat, exists, get_children, get_data, sync
from tenure.model import Bid, Incumbent, Token
from tenure.stores.entry import Entry, read_entry
from tenure.stores.zookeeper.names import Contender, contenders, is_first, misplaced, who

# How often a reader begins again because whoever was first left while it looked.
_LOOKS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one node stands among the others."""

    own: Contender
    # In the order of their numbers, without the stale ones. None, if it is plain that all are after it, and none is of its holder.
    others: tuple[Contender, ...]
    stale: tuple[Contender, ...]  # of bids that this one has superseded, or of a session that it has outlived
    superseded: bool  # a later bid of the same holder is there
    misplaced: bool


def standing_of(bid: Bid, name: str, children: list[str]) -> Standing | None:
    """Return where the node ``name`` of ``bid`` stands; None: it is not there."""
    queue = contenders([name] if is_first(name, children) else children)
    own = next((one for one in queue if one.name == name), None)
    if own is None:
        return None
    mine = who(bid.holder)
    ours = [one for one in queue if one.who == mine and one is not own]
    stale = tuple(one for one in ours if one.serial <= bid.serial)
    superseded = len(ours) > len(stale)
    gone = {own.name, *(one.name for one in stale)}
    others = tuple(one for one in queue if one.name not in gone)
    return Standing(own, others, stale, superseded, misplaced(own, others))


def ran_over(queue: Sequence[Contender]) -> bool:
    """Say whether numbers have run over 31 bits, so that they tell no order."""
    return any(one.number < 0 for one in queue)


async def by_age(session: Session, path: str, queue: Sequence[Contender]) -> list[tuple[Stat, Contender]]:
    """Return those who are still there, oldest first by the transactions that created them."""
    await session.linked()
    asked = [(session.send(exists(f"{path}/{one.name}")), one) for one in queue]
    found: list[tuple[Stat, Contender]] = []
    for answer, one in asked:
        try:
            found.append((await session.result(answer), one))
        except Fault as fault:
            if fault.code != Code.NO_NODE:
                raise
    return sorted(found, key=lambda pair: pair[0].czxid)


async def look(session: Session, path: str) -> list[str]:
    """Return the children of ``path`` as of now; none if it is not there."""
    await session.linked()
    caught_up = session.send(sync(path))
    listed = session.send(get_children(path))
    await session.result(caught_up)
    try:
        children, _ = await session.result(listed)
    except Fault as fault:
        if fault.code == Code.NO_NODE:
            return []
        raise
    return children


async def first_of(session: Session, path: str, children: list[str]) -> tuple[Contender, Entry, Stat] | None:
    """Return who is first among ``children``, and what it wrote. None: nobody. Raises Fault if that one has just left."""
    queue = contenders(children)
    if ran_over(queue):
        queue = [one for _, one in await by_age(session, path, queue)]
    if not queue:
        return None
    text, stat = await session.ask(get_data(f"{path}/{queue[0].name}"))
    return queue[0], read_entry(text, queue[0].name), stat


async def leader_of(session: Session, path: str) -> tuple[Contender, Entry, Stat] | None:
    """Return who is first now, and what it wrote."""
    for _ in range(_LOOKS_MAX):
        try:
            return await first_of(session, path, await look(session, path))
        except Fault as fault:
            if fault.code != Code.NO_NODE:
                raise
    raise Fault(Code.NO_NODE)


def incumbent(election: str, entry: Entry, stat: Stat) -> Incumbent:
    """Return who is in office, from what is in its node and known of it."""
    return Incumbent(election, entry.holder, Token(stat.czxid), entry.advertised)

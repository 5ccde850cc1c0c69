"""What is written into a node that somebody else reads or writes as well, and a list of all elections."""

from dataclasses import replace
from typing import Final

from tenure.clients.zookeeper import Code, Fault, Session
from tenure.clients.zookeeper.wire import get_children, get_data, set_data, sync
from tenure.errors import Refused
from tenure.model import Incumbent
from tenure.stores.base import ElectionStatus
from tenure.stores.entry import Entry, read_entry
from tenure.stores.zookeeper.names import contenders
from tenure.stores.zookeeper.queue import incumbent, leader_of

# How often something is written again because somebody else wrote there, or left, meanwhile.
_TRIES_MAX: Final = 10
# Where the ensemble has other tenants, a walk through all of it would be theirs to pay for.
_NODES_MAX: Final = 10_000
_RESERVED: Final = "/zookeeper"


async def leave_a_word(session: Session, address: str, election: str, path: str) -> Incumbent | None:
    """Ask the incumbent to resign, in its own node: it watches that anyway."""
    for _ in range(_TRIES_MAX):
        found = await leader_of(session, path)
        if found is None:
            return None
        first, entry, stat = found
        if entry.serial is None:
            detail = (
                f"the incumbent of {election!r} is not a program of ours ({entry.holder.host}): ask it in its own way"
            )
            raise Refused(address, "ask_to_resign", detail)
        try:
            await session.ask(set_data(f"{path}/{first.name}", entry.asked_to_resign().encode(), stat.version))
        except Fault as fault:
            if fault.code not in {Code.NO_NODE, Code.BAD_VERSION}:
                raise
        else:
            return incumbent(election, entry, stat)
    raise Fault(Code.BAD_VERSION)


async def proclaim(session: Session, node: str, entry: Entry) -> bool:
    """Write ``entry`` into an own node, but keep a word that somebody left there. False: the node is gone."""
    for _ in range(_TRIES_MAX):
        try:
            text, stat = await session.ask(get_data(node))
            said = replace(entry, resign_asked=read_entry(text, node).resign_asked)
            await session.ask(set_data(node, said.encode(), stat.version))
        except Fault as fault:
            if fault.code == Code.NO_NODE:
                return False
            if fault.code != Code.BAD_VERSION:
                raise
        else:
            return True
    raise Fault(Code.BAD_VERSION)


async def list_elections(session: Session, address: str, chroot: str) -> list[ElectionStatus]:
    """Return every election below ``chroot``, by name."""
    await session.ask(sync("/"))
    found: list[ElectionStatus] = []
    unseen, seen_count = [chroot or "/"], 0
    while unseen:
        path = unseen.pop()
        seen_count += 1
        if seen_count > _NODES_MAX:
            detail = f"there are more than {_NODES_MAX} nodes: name the election, or put a chroot into the URL"
            raise Refused(address, "elections", detail)
        try:
            children, stat = await session.ask(get_children(path))
        except Fault as fault:
            if fault.code not in {Code.NO_NODE, Code.NO_AUTH}:
                raise
            continue
        queue = {one.name for one in contenders(children)}
        below = [f"{path.rstrip('/')}/{name}" for name in children if name not in queue]
        unseen += [child for child in below if child != _RESERVED]
        election = path.removeprefix(chroot).removeprefix("/")
        # A node without children that has had some is an election in which nobody stands now.
        if election and (queue or (stat.next_number and not children)):
            found.append(await _status(session, path, election, children))
    return sorted(found, key=lambda status: status.election)


async def _status(session: Session, path: str, election: str, children: list[str]) -> ElectionStatus:
    queue = contenders(children)
    leader, standbys, resign_asked = None, [], False
    for one in queue:
        try:
            text, stat = await session.ask(get_data(f"{path}/{one.name}"))
        except Fault as fault:
            if fault.code not in {Code.NO_NODE, Code.NO_AUTH}:
                raise
            continue
        entry = read_entry(text, one.name)
        if leader is None:
            leader, resign_asked = incumbent(election, entry, stat), entry.resign_asked
        else:
            standbys.append(entry.holder)
    return ElectionStatus(election, leader, None, None, resign_asked, tuple(standbys))

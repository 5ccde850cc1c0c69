"""Where leaders write. It keeps what it is given, with a fence or without.

Three kinds of fence, so that they can be compared:
- ``off``: it takes whatever comes;
- ``own``: it compares the number that the approach has given the leader;
- ``sink``: it compares a number that it gave the leader itself, when that asked what is next. This needs nothing of the approach.

The fences that are not at work are kept beside the one that is, to know whether they would have refused anything: if not, a
run with them is the same run, to the last bit, and need not be played.
"""

from typing import TYPE_CHECKING, Any, Final

from tenure.errors import StaleToken
from tenure.lab.approaches.cast import SETTLED_NS
from tenure.lab.approaches.node import Key, Refused, Seal, Sealed, Write
from tenure.lab.world import Node
from tenure.model import Token
from tenure.sinks.fence import Fence

if TYPE_CHECKING:
    from tenure.lab.approaches.arena import Arena

OFF, OWN, OF_SINK = "off", "own", "sink"
FENCES: Final = (OFF, OWN, OF_SINK)


class Sink(Node):
    """The sink of one run. It is never struck: what it is asked for is what counts."""

    __slots__ = ("_arena", "_fence", "_fences", "_given", "_next")

    def __init__(self, world: "Arena", number: int, fence: str, kind: type[Fence] = Fence) -> None:
        super().__init__(world, number)
        self._arena, self._fence = world, fence
        self._fences = {OWN: kind(), OF_SINK: kind()}
        self._given: dict[Key, int] = {}  # what it has told whom
        self._next = 1

    def received(self, source: int, message: Any) -> None:
        if isinstance(message, Seal):
            if message.key not in self._given:
                self._given[message.key] = len(self._given) + 1
            if self._admits(message):
                self.send(source, Sealed(message.key, self._next, self._given[message.key]))
            else:
                self._refuse(source, message.key, message.token)
        elif self._admits(message):
            self._accept(source, message)
        else:
            self._refuse(source, message.key, message.token)

    def _admits(self, message: Seal | Write) -> bool:
        admitted = True
        for name, fence in self._fences.items():
            given = self._given[message.key]
            try:
                fence.admit(Token((message.token or given) if name == OWN else given))
            except StaleToken:
                self._arena.would_refuse.add(name)
                admitted = admitted and name != self._fence
        return admitted

    def _accept(self, source: int, write: Write) -> None:
        self._next = max(self._next, write.task + 1)
        arena = self._arena
        arena.note("accepted", source, write.tenure, (write.task, write.token))
        if arena.now > arena.plan.heal_at + SETTLED_NS:
            arena.stop()  # Somebody leads and works, and nothing fails any more: no checker waits for anything else.

    def _refuse(self, source: int, key: Key, token: int) -> None:
        self._arena.note("refused", source, token, "")
        self.send(source, Refused(key))

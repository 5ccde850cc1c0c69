"""Whose connection has to go when there is no room for one more. Decided here; the server carries it out.

Anybody who can reach a sidecar can open connections and say nothing. Were who comes last refused, a few thousand of them would have the
heartbeats of clients that lead refused, and their offices lost. So who comes is let in, and who goes is whoever would lose least:

1. Who has shown the token and is being answered stays, whoever comes: it may be the stream of a leader, whose office ends with it.
2. Those who have shown the token and all others have places of their own, and nobody takes one of the other kind. Only if more of them
   are being answered with the token than have places do they sit on those of the others, and go for who comes when they were answered.
3. Of each kind goes first whoever waits for nothing of ours: it has sent no request yet, or half of one, or has had its answer. The one
   that has done so for the longest: who comes in earnest says what it wants at once. So does, of the others, who waits for the engine or
   does not read: anybody can ask it so much that it is behind, and were all of these taken for answered, who comes would go unread.
4. If all of the others are being answered, the one that has been for the longest. That is somebody who listens to events, and comes
   back.
5. If by rule 1 nobody can go, who comes does. So there are never more candidacies than half of the places for the token.

Who comes is among the others until it has shown the token. Used on the loop of the server.
"""

from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar

OTHERS_MAX: Final = 3000
TOKEN_MAX: Final = 2000
_PER_CANDIDACY: Final = 2  # a stream and a question
CANDIDACIES_MAX: Final = TOKEN_MAX // _PER_CANDIDACY
# So many are accepted at once, and as many again before anything of the first is read. Both together have to find room beside all who
# listen to events, or a heartbeat that comes among them is closed unread.
BACKLOG: Final = 480
# Those that were accepted and are not counted yet, twice, and those that had to go and are not closed yet.
_UNCOUNTED: Final = 3 * BACKLOG
_FILES_BESIDES: Final = 256  # for the store, the log and whatever else is open
FILES: Final = OTHERS_MAX + TOKEN_MAX + _UNCOUNTED + _FILES_BESIDES


class Room(NamedTuple):
    """How many may be connected, and how many may be about to be."""

    others_max: int
    token_max: int
    backlog: int

    @property
    def listeners_max(self) -> int:
        """How many of the others may listen to events. Could they fill it, who comes would be closed for who comes next, unread."""
        return max(1, 2 * self.others_max // 3)

    @property
    def candidacies_max(self) -> int:
        """How many clients may stand. Each of them may have a stream, and all streams have to find a place that nobody takes."""
        return max(1, self.token_max // _PER_CANDIDACY)


def room(files: int) -> Room:
    """Return for how many there is room if the system allows so many files, of which every connection is one.

    Were there none left, the store could not be connected to either, and every office would be lost.
    """
    left = max(files - _FILES_BESIDES, files // 2)
    share = min(1.0, left / (FILES - _FILES_BESIDES))
    return Room(*(max(1, int(share * most)) for most in (OTHERS_MAX, TOKEN_MAX, BACKLOG)))


C = TypeVar("C", bound=Hashable)


class _Kind(Generic[C]):
    """Connections of one kind. A dictionary keeps the order in which they came to be as they are."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.idle: dict[C, None] = {}
        self.busy: dict[C, None] = {}

    def __contains__(self, one: C) -> bool:
        return one in self.idle or one in self.busy

    def __len__(self) -> int:
        return len(self.idle) + len(self.busy)

    def put(self, one: C, *, busy: bool) -> None:
        """Count one, or count it anew if it does something else now."""
        into, other = (self.busy, self.idle) if busy else (self.idle, self.busy)
        if one not in into:
            other.pop(one, None)
            into[one] = None

    def drop(self, one: C) -> None:
        self.idle.pop(one, None)
        self.busy.pop(one, None)

    @property
    def over_count(self) -> int:
        """How many there are beyond their places."""
        return max(0, len(self) - self.most)

    def drop_idle(self) -> C | None:
        """Return who has waited longest, and is counted no more; None: nobody waits."""
        found = next(iter(self.idle), None)
        if found is not None:
            del self.idle[found]
        return found

    def drop_busy(self) -> C | None:
        """Return who has been answered for the longest, and is counted no more."""
        found = next(iter(self.busy), None)
        if found is not None:
            del self.busy[found]
        return found


class Crowd(Generic[C]):
    """All connections. Each method that may have made it too many returns whose has to be closed."""

    def __init__(self, others_max: int = OTHERS_MAX, token_max: int = TOKEN_MAX) -> None:
        self._others, self._known = _Kind[C](others_max), _Kind[C](token_max)

    def __len__(self) -> int:
        return len(self._others) + len(self._known)

    def came(self, one: C) -> C | None:
        """Take note of a connection that was opened. It is itself the one that has to be closed if nobody else can be."""
        going = None
        if len(self._others) + self._known.over_count >= self._others.most:
            going = self._drop_one()
            if going is None:
                return one
        self._others.put(one, busy=False)
        return going

    def showed_token(self, one: C) -> C | None:
        """Take note that somebody has the token, for as long as its connection lasts."""
        if one not in self._others:
            return None
        going = self._known.drop_idle() if len(self._known) >= self._known.most else None
        self._known.put(one, busy=one in self._others.busy)
        self._others.drop(one)
        return going

    def is_answered(self, one: C) -> None:
        """Take note that all of a request has come, and is worked on."""
        self._put(one, busy=True)

    def waits(self, one: C) -> None:
        """Take note that a request is worked on, and that this may take a while because of the engine, or of the client itself."""
        if one in self._others:
            self._others.put(one, busy=False)

    def was_answered(self, one: C) -> None:
        """Take note that a connection waits for the next request."""
        self._put(one, busy=False)

    def gone(self, one: C) -> None:
        """Take note that a connection is closed."""
        self._others.drop(one)
        self._known.drop(one)

    def _drop_one(self) -> C | None:
        """Return who goes for somebody who comes, and is counted no more; None: nobody may."""
        going = self._others.drop_idle()
        if going is None and self._known.over_count:
            going = self._known.drop_idle()
        return self._others.drop_busy() if going is None else going

    def _put(self, one: C, *, busy: bool) -> None:
        for kind in (self._others, self._known):
            if one in kind:
                kind.put(one, busy=busy)

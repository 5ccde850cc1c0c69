"""Who listens to events, and what they have not been sent yet. One row of events for all clients, however many there are.

A client is a place in that row and nothing more: it holds no queue of its own, so a slow one costs what an idle one does. Whoever is so
slow that the row has gone on without it is cut off, and comes back with the id of the last event that it got.

Where the server has a ``Pipe`` for a client, the hub writes into it by itself: waking a task for each of a thousand, and having the server
frame the same bytes a thousand times, takes several times as long.

Used on the loop of the server only.
"""

import asyncio
import secrets
import time
from dataclasses import dataclass
from typing import Final, Protocol

from tenure.serve.answers import busy, encoded, leaving

EVENTS_KEPT: Final = 4096  # Of a usual size 1 MiB, and at one failover a second an hour.
# What changes on a board of thousands is 100 kB a second: of those fewer are kept. Whoever comes back may be sent all of them.
BYTES_KEPT: Final = 4 * 1024 * 1024
# Each may be all that is kept, and whoever likes asks from each event on.
CHUNKS_MAX: Final = 16
CLIENTS_MAX: Final = 2000
BEAT_S: Final = 10.0  # Less than any proxy waits for a byte before it gives a connection up.
# How long one may take to read what it was sent. Up to 64 KiB wait for it in the connection besides.
SEND_WITHIN_S: Final = 10.0
_BEAT: Final = b": still here\n\n"
# Sending one event to one client costs some 0.02 ms. So events that come within this time of each other go out together, and a
# storm of facts costs a core at the most, and no client more than this delay.
_PACE_S_PER_CLIENT: Final = 0.00005
PENDING_BYTES_MAX: Final = 64 * 1024  # what may wait in a connection before its client counts as slow


@dataclass(frozen=True, slots=True)
class Event:
    """One event as it is sent, and which election it is about; "": the store or the machine; None: for who wants all of them."""

    number: int
    election: str | None
    block: bytes


class Pipe(Protocol):
    """A connection, below the server's own way of writing to it."""

    is_cut_off: bool  # whether it has ended without a word of the client's
    is_stream: bool  # whether it is read is not the server's to see to: the hub does, or a candidacy hangs on it

    def showed_token(self) -> None:
        """Take note that somebody who has the token is at its other end."""
        ...

    def waits(self) -> None:
        """Take note that the answer has to wait for the engine."""
        ...

    def write(self, content: bytes, /) -> None:
        """Write, now or when there is room. Never waits."""
        ...

    def pending_bytes(self) -> int:
        """Return how much waits for room."""
        ...

    def abort(self) -> None:
        """End it at once."""
        ...


class Client:
    """One who listens."""

    __slots__ = ("_hub", "beats", "elections", "gone", "news", "pipe", "position", "sending_since_s", "writes")

    def __init__(self, hub: "Hub", position: int, elections: frozenset[str], pipe: Pipe | None) -> None:
        self._hub, self.position, self.elections, self.pipe = hub, position, elections, pipe
        self.writes = False  # whether the hub writes into the pipe by itself
        self.news = asyncio.Event()
        self.gone = self.beats = False
        self.sending_since_s: float | None = None
        self.news.set()  # There may be something to send already.

    def take(self) -> bytes | None:
        """Return what is to be sent now, which may be nothing; None: this client is too far behind, and is cut off."""
        self.news.clear()
        chunk = self._hub.since(self.position, self.elections)
        self.position = self._hub.last
        if chunk == b"" and self.beats:
            chunk = _BEAT
        self.beats = False
        return chunk

    def wake(self, *, gone: bool = False) -> None:
        """Have it look whether there is something to send; or send it."""
        self.gone = self.gone or gone
        if not self.writes or self.pipe is None or self.gone or self._hub.closed:
            self.news.set()
        elif self.pipe.pending_bytes() > PENDING_BYTES_MAX:
            if self.sending_since_s is None:
                self.sending_since_s = time.monotonic()
        else:
            self.sending_since_s, chunk = None, self.take()
            if chunk is None:
                self.cut()
            elif chunk:
                self.pipe.write(self._hub.framed(chunk))

    def cut(self) -> None:
        """End the connection of one who is too slow."""
        self._hub.cut_count += 1
        self.gone = True
        self.news.set()
        if self.pipe is not None:
            self.pipe.abort()


class Hub:
    """The row of events and everybody who listens to it."""

    def __init__(self, kept: int = EVENTS_KEPT, clients_max: int = CLIENTS_MAX) -> None:
        # Numbers begin anew with every process, so an id says of which one it is.
        self._epoch = secrets.token_hex(4)
        self._row: list[Event] = []
        self._row_bytes = 0
        self._kept, self.clients_max = kept, clients_max
        self.last = 0
        self.clients: set[Client] = set()
        self._flushed_at_s = 0.0
        self._flush: asyncio.TimerHandle | None = None
        self._chunks: dict[tuple[int, frozenset[str]], bytes | None] = {}
        self._frame = b"", b""  # the last chunk, and how it is sent
        self.cut_count = 0  # clients that were too slow
        self.closed = False

    @property
    def last_id(self) -> str:
        """The id of the last event."""
        return f"{self._epoch}-{self.last}"

    def publish(self, kind: str, told: object, election: str | None = "") -> None:
        """Send an event to everybody who listens, soon. Waits for nobody."""
        self.last += 1
        self._chunks.clear()
        block = block_of(kind, told, self.last_id)
        self._row.append(Event(self.last, election, block))
        self._row_bytes += len(block)
        if len(self._row) > 2 * self._kept or self._row_bytes > 2 * BYTES_KEPT:
            self._drop_oldest()
        if self.clients and self._flush is None:
            due_s = self._flushed_at_s + _PACE_S_PER_CLIENT * len(self.clients)
            self._flush = asyncio.get_running_loop().call_later(max(0.0, due_s - time.monotonic()), self._wake_all)

    def _drop_oldest(self) -> None:
        kept, size = 0, 0
        for event in reversed(self._row[-self._kept :]):
            if kept and size + len(event.block) > BYTES_KEPT:
                break
            kept, size = kept + 1, size + len(event.block)
        del self._row[:-kept]
        self._row_bytes = size

    def since(self, position: int, elections: frozenset[str]) -> bytes | None:
        """Return all events after ``position``; None: some of them are not kept any more."""
        if position == self.last:
            return b""
        key = position, elections
        if key not in self._chunks:
            if len(self._chunks) >= CHUNKS_MAX:
                self._chunks.clear()
            found = self._row[position - self.last :] if self.last - position <= len(self._row) else None
            self._chunks[key] = found if found is None else _joined(found, elections)
        return self._chunks[key]

    def framed(self, chunk: bytes) -> bytes:
        """Return a chunk as HTTP/1.1 frames it: the same for all who get it."""
        if self._frame[0] is not chunk:
            self._frame = chunk, b"%x\r\n%s\r\n" % (len(chunk), chunk)
        return self._frame[1]

    def join(self, elections: frozenset[str], last_id: str | None, pipe: Pipe | None) -> Client:
        """Let somebody listen from the event after ``last_id`` on; None: from now on. Raises Fault if there is no room.

        Who names an event that is not kept, or of another process, is told so by the event ``missed``, and listens from now on.
        """
        if self.closed:
            raise leaving()
        if len(self.clients) >= self.clients_max:
            raise busy("too-many-clients", f"{self.clients_max} listen to events already", retry_after_s=5)
        position = self.last if last_id is None else self._position_of(last_id)
        client = Client(self, self.last if position is None else position, elections, pipe)
        self.clients.add(client)
        return client

    def missed(self, last_id: str | None) -> bytes:
        """Return what tells a client that it has missed something; nothing, if it has not."""
        if last_id is None or self._position_of(last_id) is not None:
            return b""
        told = {"detail": "Events between the one that you name and this one are gone: read again what you show."}
        return block_of("missed", told, self.last_id)

    def beat(self) -> None:
        """Show everybody that the connection lives, and cut off who does not read. Called once in BEAT_S."""
        now_s = time.monotonic()
        for client in tuple(self.clients):
            if client.sending_since_s is not None and now_s - client.sending_since_s > SEND_WITHIN_S:
                client.cut()
            else:
                client.beats = True
                client.wake()

    def close(self) -> None:
        """Let everybody go, once they were sent what there is."""
        self.closed = True
        if self._flush is not None:
            self._flush.cancel()
        self._wake_all()

    def _wake_all(self) -> None:
        self._flush, self._flushed_at_s = None, time.monotonic()
        for client in tuple(self.clients):
            client.wake()

    def _position_of(self, last_id: str) -> int | None:
        epoch, _, number = last_id.partition("-")
        if epoch != self._epoch or not number.isascii() or not number.isdigit() or len(number) > len(str(self.last)):
            return None
        return int(number) if self.last - len(self._row) <= int(number) <= self.last else None


def block_of(kind: str, told: object, number: str = "") -> bytes:
    """Return one event as ``text/event-stream`` has it. JSON has no line breaks in it but the one at its end."""
    return (f"id: {number}\n" if number else "").encode() + b"event: %s\ndata: %s\n" % (kind.encode(), encoded(told))


def _joined(events: list[Event], elections: frozenset[str]) -> bytes:
    return b"".join(e.block for e in events if not elections or e.election == "" or e.election in elections)

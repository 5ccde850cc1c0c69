"""A board shown to browsers with nothing but Python: for the demos, and whoever wants the page without the sidecar. It only shows.

``feed`` is called by any thread. Each browser is a thread that waits for the next event; all are sent the same ones.
"""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tenure.facts.kinds import Fact, Renewed, as_json
from tenure.serve.board import Board
from tenure.serve.board_page import HEADERS, INDEX, asset
from tenure.web.serving import serving

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

EVERY_S: Final = 0.2  # How often it is looked whether the board has changed: as fast as somebody can see.
_BEAT_S: Final = 5.0
_FAREWELL_S: Final = 1.0
_EVENTS_KEPT: Final = 1000
_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")


class Showing:
    """One board, and the browsers that look at it. ``app`` is a WSGI application."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._lock = threading.Condition()
        self._events: deque[bytes] = deque(maxlen=_EVENTS_KEPT)
        self._last = 0  # how many events there were
        self._closing = threading.Event()
        self._streams = 0
        self._opened = threading.Event()

    def feed(self, tell: Callable[[Board], object]) -> None:
        """Have something told to the board, while nobody else does."""
        with self._lock:
            tell(self._board)

    def hear(self, fact: Fact) -> None:
        """Tell the board of a fact, and the browsers."""
        with self._lock:
            self._board.heard(fact)
            if not isinstance(fact.what, Renewed):
                self._publish("fact", as_json(fact))

    def say(self, election: str, at: str, text: str) -> None:
        """Tell the browsers of something that is no fact of an election: what somebody did to one."""
        with self._lock:
            self._publish("fact", {"fact": "noted", "at": at, "election": election, "text": text})

    def pulse(self) -> None:
        """Send what has changed to every browser."""
        with self._lock:
            changes = self._board.changes()
            if changes["revision"] != changes["since"]:
                self._publish("board", changes)

    def close(self, text: str) -> None:
        """Send the last of it, and what the page is to say from now on; every browser is let go."""
        self.pulse()
        with self._lock:
            self._publish("end", {"text": text})
            self._closing.set()

    def wait_for_somebody(self, within_s: float) -> bool:
        """Wait until a browser looks; False: none has."""
        return self._opened.wait(within_s)

    @contextmanager
    def served(self, farewell: Callable[[], str], host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
        """Serve the page while the block runs; gives its URL. ``farewell`` is asked for what the page is to say after it."""
        pulsing = threading.Thread(target=self._beat, name="tenure-page", daemon=True)
        with serving(self.app, host, port) as url:
            pulsing.start()
            try:
                yield url
            finally:
                self.close(farewell())
                pulsing.join()
                with self._lock:  # A process that ends at once would take the last words with it.
                    self._lock.wait_for(lambda: not self._streams, _FAREWELL_S)

    def _beat(self) -> None:
        while not self._closing.wait(EVERY_S):
            self.pulse()

    def _publish(self, kind: str, told: object) -> None:
        self._events.append(f"event: {kind}\ndata: {json.dumps(told)}\n\n".encode())
        self._last += 1
        self._lock.notify_all()

    # HTTP

    def app(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer one request."""
        path, method = environ.get("PATH_INFO", ""), environ.get("REQUEST_METHOD", "")
        if environ.get("HTTP_HOST", "").rpartition(":")[0] not in _HOSTS:
            # A name of somebody else's that leads here: then his page would read ours.
            return _answer(start_response, "421 Misdirected Request", _refusal("ask for this page at its own address"))
        if method not in ("GET", "HEAD"):
            return _answer(start_response, "405 Method Not Allowed", _refusal("this page only shows"))
        if path == "/v1/board":
            with self._lock:
                told, last = self._board.as_json(), self._last
            body = json.dumps(told, separators=(",", ":")).encode()
            return _answer(start_response, "200 OK", body, ("Tenure-Event-Id", str(last)))
        if path == "/v1/events":
            return self._stream(start_response, environ.get("HTTP_LAST_EVENT_ID", ""))
        name = INDEX if path == "/" else path.removeprefix("/assets/")
        found = asset(name) if path == "/" or path.startswith("/assets/") else None
        if found is None:
            return _answer(start_response, "404 Not Found", _refusal("there is no such page"))
        start_response("200 OK", [*found.headers.items(), ("Content-Length", str(len(found.body)))])
        return [found.body]

    def _stream(self, start_response: "StartResponse", last_id: str) -> Iterator[bytes]:
        with self._lock:
            position = min(self._last, int(last_id)) if last_id.isdecimal() else self._last
            self._streams += 1
        start_response("200 OK", _headers("text/event-stream"))
        self._opened.set()
        try:
            yield from self._chunks(position)
        finally:
            with self._lock:
                self._streams -= 1
                self._lock.notify_all()

    def _chunks(self, position: int) -> Iterator[bytes]:
        yield b": here\n\n"
        while True:
            with self._lock:
                self._lock.wait_for(partial(self._has_news, position), _BEAT_S)
                # One that was left behind by more than is kept misses some, and notices by their numbers.
                behind = min(self._last - position, len(self._events))
                chunk = b"".join(list(self._events)[len(self._events) - behind :])
                position, is_over = self._last, self._closing.is_set()
            yield chunk or b": still here\n\n"
            if is_over:
                return

    def _has_news(self, position: int) -> bool:
        return self._last > position or self._closing.is_set()


def _headers(kind: str) -> list[tuple[str, str]]:
    return [*HEADERS.items(), ("Content-Type", kind)]


def _refusal(detail: str) -> bytes:
    return json.dumps({"detail": detail}).encode()


def _answer(start_response: "StartResponse", status: str, body: bytes, *more: tuple[str, str]) -> list[Any]:
    start_response(status, [*_headers("application/json"), ("Content-Length", str(len(body))), *more])
    return [body]

"""The page without the sidecar: what it answers, whom it refuses, and that no event is lost between the board and the stream."""

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tenure.facts.kinds import Elected
from tenure.model import Token
from tenure.serve.board_showing import Showing
from tests.serve.boards import board, fact, holder, status

ADA = holder("ada")


def ask(
    showing: Showing, path: str, method: str = "GET", host: str = "127.0.0.1:8000", **more: str
) -> tuple[str, dict[str, str], Iterable[bytes]]:
    """Call the application as a server does."""
    told: list[Any] = []

    def start_response(line: str, headers: list[tuple[str, str]], *_: Any) -> Any:
        told.extend((line, dict(headers)))

    environ = {"PATH_INFO": path, "REQUEST_METHOD": method, "HTTP_HOST": host, **more}
    body = showing.app(environ, start_response)
    if not isinstance(body, list):
        body = _begun(body)
    return told[0], told[1], body


def _begun(stream: Iterable[bytes]) -> Iterator[bytes]:
    """A stream says its head with its first bytes."""
    events = iter(stream)
    assert next(events) == b": here\n\n"
    return events


def shown() -> Showing:
    made = board()
    made.saw([status("jobs", ADA, 7)], time.time())
    return Showing(made)


def test_the_page_its_files_and_its_board_are_answered_under_one_policy() -> None:
    for path in ("/", "/assets/main.js", "/assets/page.css", "/v1/board", "/nowhere"):
        _, headers, _ = ask(shown(), path)
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
        assert headers["X-Content-Type-Options"] == "nosniff"
    line, _, body = ask(shown(), "/v1/board")
    assert (line, json.loads(b"".join(body))["elections"][0]["election"]) == ("200 OK", "jobs")


@pytest.mark.parametrize("path", ["/nowhere", "/assets/", "/assets/../board.py", "/assets/board.py", "/index.html", ""])
def test_whatever_else_is_asked_for_is_not_there(path: str) -> None:
    assert ask(shown(), path)[0] == "404 Not Found"


def test_a_name_of_somebody_elses_that_leads_here_is_refused() -> None:
    for host in ("evil.example:8000", "evil.example", "", "127.0.0.1.evil.example:80"):
        assert ask(shown(), "/v1/board", host=host)[0] == "421 Misdirected Request"
    assert ask(shown(), "/v1/board", host="localhost:8000")[0] == "200 OK"


def test_it_takes_no_orders() -> None:
    assert ask(shown(), "/v1/elections/jobs/resign", "POST")[0] == "405 Method Not Allowed"


def test_what_happens_between_the_board_and_the_stream_is_in_the_stream() -> None:
    showing = shown()
    showing.pulse()
    last = ask(showing, "/v1/board")[1]["Tenure-Event-Id"]
    showing.hear(fact(Elected(Token(8), 0), time.time() + 5, "jobs", ADA))
    showing.pulse()
    line, headers, events = ask(showing, "/v1/events", HTTP_LAST_EVENT_ID=last)
    first = next(iter(events)).decode()
    assert (line, headers["Content-Type"]) == ("200 OK", "text/event-stream")
    assert [part.partition("\n")[0] for part in first.split("\n\n") if part] == ["event: fact", "event: board"]
    assert '"token": 8' in first


def test_the_last_words_reach_everybody_and_end_the_stream() -> None:
    showing = shown()
    _, _, events = ask(showing, "/v1/events")
    showing.close("It is over.")
    told = b"".join(events).decode()
    assert told.endswith('event: end\ndata: {"text": "It is over."}\n\n')

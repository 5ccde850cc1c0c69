"""Where a client goes is for the client to say: whatever a ``Location`` says, the token reaches one origin and no other."""

import io
import random
from contextlib import suppress
from typing import Any

import httpx
import pytest
import requests
from requests.adapters import BaseAdapter
from urllib3 import HTTPResponse
from urllib3.util import parse_url

from tenure.model import Token
from tenure.sinks.http import Presented, fence_httpx, requests_auth
from tenure.sinks.http.header import NAME

Sent = tuple[str, str | bytes | None]  # to whom, and with which header
TERM = Presented(Token(7), "f")


class Redirecting(BaseAdapter):
    """Answers the first request of a call with a redirect, and notes what is sent after it, and with which header."""

    def __init__(self) -> None:
        super().__init__()
        self.locations: list[str] = []
        self.sent: list[Sent] = []

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        answer = requests.Response()
        answer.request, answer.url, answer.status_code = request, str(request.url), 200
        answer.raw = HTTPResponse(body=io.BytesIO(b""), preload_content=False)
        self.sent.append((answer.url, request.headers.get(NAME)))
        if self.locations:
            answer.status_code, answer.headers["Location"] = 307, self.locations.pop(0)
        return answer

    def close(self) -> None:
        pass


def followed(*locations: str, url: str = "http://ours/go") -> list[Sent]:
    """What is sent after the first request, if its answer and those that follow are redirects to these."""
    adapter = Redirecting()
    with requests.Session() as session:
        session.trust_env = False
        for scheme in ("http://", "https://"):
            session.mount(scheme, adapter)
        session.auth = requests_auth(TERM, "http://ours")
        adapter.locations = list(locations)
        with suppress(requests.RequestException, ValueError):  # It is no URL, says requests itself.
            session.post(url, timeout=30)
    return adapter.sent[1:]


def strangers(sent: list[Sent]) -> list[str]:
    """Those who got the header and must not have."""
    found = [url for url, value in sent if value is not None]
    # as the library that makes the connection reads it
    return [
        url
        for url in found
        if (read := parse_url(url)).scheme != "http" or (read.host, read.port or 80) != ("ours", 80)
    ]


@pytest.mark.parametrize(
    "location",
    [
        "////evil/x",
        "http:////evil/x",
        "http:////evil////x",
        "/\t///evil/x",
        "\x00////evil/x",
        " ////evil/x",
        "//evil/x",
        "///evil/x",
        "/\\evil/x",
        "http://evil\\@ours/x",
        "http://ours@evil/x",
        "http://ours:80@evil/x",
        "https://ours/x",
        "http://ours:81/x",
        "http://ours.evil/x",
    ],
)
def test_no_spelling_of_another_origin_carries_the_token_there(location: str) -> None:
    assert strangers(followed(location)) == []
    # Nor does a second hop that stays where the first one has led, unless that was home.
    assert strangers(followed(location, "/y")) == []
    assert strangers(followed(location, "y")) == []


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("/x", "http://ours/x"),
        ("/", "http://ours/"),
        ("x/y?z=1", "http://ours/x/y?z=1"),
        ("?z=1", "http://ours/go?z=1"),
        ("../x", "http://ours/x"),
        ("/x/..//y", "http://ours//y"),
        ("http://ours/x//y;z?a=b&c=%20#d", "http://ours/x//y;z?a=b&c=%20#d"),
        ("http://ours", "http://ours/"),
        ("http://ours:80/x", "http://ours:80/x"),
    ],
)
def test_a_plain_redirect_within_the_origin_carries_it_along(location: str, url: str) -> None:
    (sent,) = followed(location)
    assert sent[1] == "7; fence=f"
    assert sent[0] in {url, url.removesuffix("/")}


PARTS = [
    "http:",
    "https:",
    "HTTP:",
    "/",
    "//",
    "///",
    "\\",
    "@",
    "ours",
    "evil",
    "ours:80",
    ":80",
    ":",
    "?",
    "#",
    ";",
    "%2f",
    "%40",
    "%5c",
    ".",
    "..",
    "[",
    "]",
    "a",
    "%00",
    "x@",
    "é",
    "\x85",
    "\xa0",
]


def test_nor_does_any_text_that_is_put_together_by_chance() -> None:
    chance, carried = random.Random(7), 0
    for _ in range(1500):
        location = "".join(chance.choices([*PARTS, " ", "\t", "\x00"], k=chance.randint(1, 7)))
        sent = followed(location)
        assert strangers(sent) == [], ascii(location)
        carried += any(value for _, value in sent)
    assert carried > 20, "nothing was tried that may carry it"


def by_httpx(location: str) -> list[Sent]:
    """The same as ``followed`` for httpx, with the host by which it connects."""
    sent: list[Sent] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append((request.url.raw_host.decode(), request.headers.get(NAME)))
        return httpx.Response(307, headers={"Location": location}) if len(sent) == 1 else httpx.Response(200)

    with httpx.Client(transport=httpx.MockTransport(answer), follow_redirects=True) as client:
        fence_httpx(client, TERM, "http://ours")
        with suppress(httpx.HTTPError, httpx.InvalidURL):
            client.post("http://ours/go")
    return sent[1:]


def test_httpx_carries_it_by_the_host_to_which_it_connects() -> None:
    assert by_httpx("//:80//ours:80") == [("", None)]
    assert by_httpx("//ours:80/x") == [("ours", "7; fence=f")]
    assert by_httpx("//ours:81/x") == [("ours", None)]
    assert by_httpx("http://ours@evil/x") == [("evil", None)]

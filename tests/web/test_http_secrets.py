"""What the HTTP side must not tell: secrets in URLs that are badly written, and signatures in what is printed."""

from types import SimpleNamespace
from typing import Any

import anyio
import pytest
import requests

from tenure.errors import ConfigError
from tenure.model import Token
from tenure.sinks import HttpSink
from tenure.sinks.http import Presented, Secret, requests_auth
from tenure.sinks.http.header import NAME
from tests.web.serving import wsgi

TERM = SimpleNamespace(fence="f", token=7)


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1",
        "https://u:hunter2@[::1",
        "https://u:hun/ter2@h",
        "https://u:1/hunter2@h",
        "https://u:hun?ter2@h",
        "https://u:hun#ter2@h",
        "https://u:hun@ter2@h",
        "https://h:hunter2/",
        "https://h/?key=hunter2",
        "u:hunter2@h",
    ],
)
def test_a_bad_url_is_one_clear_error_without_its_secrets(url: str) -> None:
    with pytest.raises(ConfigError, match="url = ") as told:
        HttpSink(url)
    assert "\n" not in str(told.value)
    if "@" in url or "?" in url:
        for text in (str(told.value), str(told.value.__cause__), str(told.value.args)):
            assert "hun" not in text
            assert "ter2" not in text


def test_a_path_that_cannot_be_sent_is_not_of_unknown_outcome() -> None:
    got: list[str] = []

    def app(environ: Any, start_response: Any) -> list[bytes]:
        got.append(environ["PATH_INFO"])
        start_response("200 OK", [])
        return [b""]

    with wsgi(app) as url:
        for path in ("/a b", "/a\x00b", "/a\r\nb", "/é", "/\ud800"):
            with pytest.raises(ConfigError, match="cannot be sent"):
                anyio.run(HttpSink(url).bind(TERM).request, "POST", path)
    assert got == []


def test_a_redirect_to_what_is_no_url_carries_nothing_and_is_no_error_of_ours() -> None:
    request = requests.Request("POST", "http://h/x", auth=requests_auth(TERM, "http://h")).prepare()
    assert NAME in request.headers
    answer = requests.Response()
    answer.status_code, answer.url, answer.request = 302, "http://h/x", request
    answer.headers["Location"] = "http://[::1"
    request.hooks["response"][0](answer)
    assert NAME not in request.headers


def test_what_is_presented_does_not_print_its_signature() -> None:
    signed = Secret("a secret of sixteen bytes").sign(Presented(Token(7), "f"))
    assert signed.signature
    assert signed.signature not in repr(signed)
    assert "token=7" in repr(signed)


def test_what_cannot_be_sent_is_told_without_the_query_and_the_headers() -> None:
    def app(_: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b""]

    query, header = "/x?key=hunter2", "Bearer hunter2"
    refused: list[tuple[str, dict[str, str]]] = [
        (query, {"Authorization": f"{header}\n"}),
        (query, {"Authorization": f"{header}\u2019"}),
        (query, {f"{header}\n": "x"}),
        (f"{query} b", {}),
        (f"{query}\u2019", {}),
        ("/x#hunter2 b", {}),
    ]
    with wsgi(app) as url:
        for path, headers in refused:
            with pytest.raises(ConfigError, match="request = '/x': cannot be sent") as told:
                anyio.run(HttpSink(url).bind(TERM).request, "POST", path, b"", headers)
            error = told.value
            assert "hunter2" not in f"{error} {error.args} {error.__cause__!r} {error.__context__!r}"

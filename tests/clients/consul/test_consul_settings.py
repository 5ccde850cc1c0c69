"""What a URL says of Consul, and what is refused before anything is sent."""

from pathlib import Path

import pytest

from tenure.clients.consul.settings import settings_of
from tenure.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("consul://h?lock_delay=61", "from 0 to 60"),
        ("consul://h?lock_delay=-1", "from 0 to 60"),
        ("consul://h?timeout=0", "must be a number of seconds"),
        ("consul://h?timeout=soon", "must be a number of seconds"),
        ("consul://h?ca=/x", "write consuls://"),
        ("consul://h?colour=red", "'colour' that consul:// does not know"),
        ("consul://t@h?token_file=/x", "in two places"),
        ("consul://h?token_file=/no/such/file", "cannot be read"),
        ("consul://h/a//b", "an empty part"),
        ("consul://", "no host"),
        ("consul://..", "no host"),
        ("consul://a..b", "no host"),
        (f"consul://{'a' * 64}", "no host"),
        ("consul://a\\b", "no host"),
        ("consul://a\u200bb", "no host"),
        ("consul://s3cret%0Aabc@h", "one line of printable"),
        ("consul://s3cret%C3%A9@h", "one line of printable"),
        ("consul://h?token_file=", "name a file"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_with_what_is_wrong(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace("(", r"\(")) as told:
        settings_of(url)
    assert "s3cret" not in str(told.value)


def test_a_token_of_two_lines_is_refused_and_not_shown_wherever_it_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\nanother line\n")
    with pytest.raises(ConfigError, match="one line of printable") as told:
        settings_of("consul://h", token_file=str(file))
    assert "s3cret" not in str(told.value)
    monkeypatch.setenv("CONSUL_HTTP_TOKEN", "s3cret\n")
    with pytest.raises(ConfigError, match="one line of printable") as told:
        settings_of("consul://h")
    assert "s3cret" not in str(told.value)


def test_ports_tokens_and_prefixes_are_read_from_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONSUL_HTTP_TOKEN", raising=False)
    monkeypatch.delenv("CONSUL_HTTP_TOKEN_FILE", raising=False)
    plain = settings_of("consul://h1,h2:18500/app/books/?lock_delay=0")
    assert plain.endpoints == ("h1:8500", "h2:18500")
    assert (plain.prefix, plain.lock_delay_ns, plain.token) == ("app/books/", 0, "")
    secret = settings_of("consuls://:s3cret@h")
    assert (secret.endpoints, secret.token) == (("h:8501",), "s3cret")
    assert "s3cret" not in repr(secret)
    assert "s3cret" not in secret.address

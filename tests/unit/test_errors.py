"""The errors: fields, one line of text, a copy that is equal, and no secret anywhere in them."""

import pickle
import string
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tenure import errors
from tenure.errors import (
    ClockError,
    ConfigError,
    Contended,
    OutcomeUnknown,
    Overstay,
    Reason,
    Refused,
    StaleToken,
    StoreError,
    TenureError,
    TenureOver,
    Unreachable,
    UnverifiedToken,
    redact,
)

STORE_ERRORS: list[type[StoreError]] = [Unreachable, Refused, OutcomeUnknown]

EXAMPLES: list[tuple[TenureError, dict[str, object], str]] = [
    (
        ConfigError("ttl", -1, "must be more than 0"),
        {"setting": "ttl", "value": "-1", "rule": "must be more than 0"},
        "ttl = -1: must be more than 0",
    ),
    (ClockError(6, 7), {"shown_ns": 6, "before_ns": 7}, "the clock went back from 7 ns to 6 ns"),
    (
        StoreError("etcd://h", "claim", "why"),
        {"store": "etcd://h", "operation": "claim", "detail": "why"},
        "etcd://h: claim failed: why",
    ),
    (
        Unreachable("etcd://h", "claim"),
        {"store": "etcd://h", "operation": "claim", "detail": ""},
        "etcd://h: claim was not sent",
    ),
    (
        Refused("etcd://h", "renew", "no right"),
        {"store": "etcd://h", "operation": "renew", "detail": "no right"},
        "etcd://h: renew was refused: no right",
    ),
    (
        Contended("etcd://h", "update", "3 times"),
        {"store": "etcd://h", "operation": "update", "detail": "3 times"},
        "etcd://h: update gave way to others: 3 times",
    ),
    (
        OutcomeUnknown("etcd://h", "claim", "reset"),
        {"store": "etcd://h", "operation": "claim", "detail": "reset"},
        "etcd://h: claim has no known outcome: reset",
    ),
    (TenureOver(7, Reason.STORE_GONE), {"token": 7, "reason": Reason.STORE_GONE}, "tenure 7 is over: store-gone"),
    (StaleToken(7, 9), {"token": 7, "highest": 9}, "token 7 is stale: the highest seen is 9"),
    (UnverifiedToken(9, 7), {"token": 9, "highest": 7}, "token 9 is not verified: the highest seen is 7"),
    (
        Overstay(7, 1_500_000_000),
        {"token": 7, "late_by_ns": 1_500_000_000},
        "the body of tenure 7 ran on 1.500 s after its validity had ended",
    ),
]
NAMES = [type(error).__name__ for error, _, _ in EXAMPLES]


def test_every_error_class_has_an_example_here() -> None:
    classes = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, TenureError)}
    assert {type(error) for error, _, _ in EXAMPLES} == classes - {TenureError}


@pytest.mark.parametrize(("error", "fields", "text"), EXAMPLES, ids=NAMES)
def test_an_error_carries_fields_and_one_line_made_of_them(
    error: TenureError, fields: dict[str, object], text: str
) -> None:
    assert vars(error) == fields
    assert str(error) == text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(("error", "fields", "text"), EXAMPLES, ids=NAMES)
def test_an_error_survives_pickling(error: TenureError, fields: dict[str, object], text: str) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  (our own bytes)
    assert (type(copy), vars(copy), str(copy), copy.args) == (type(error), fields, text, error.args)


@pytest.mark.parametrize("kind", STORE_ERRORS)
def test_what_a_store_raises_is_caught_as_a_store_error_and_as_ours(kind: type[StoreError]) -> None:
    assert issubclass(kind, StoreError)
    assert issubclass(kind, TenureError)
    assert not issubclass(kind, OSError | TimeoutError)


@given(st.text())
def test_whatever_an_engine_says_the_text_is_one_line(detail: str) -> None:
    assert len(str(Refused("memory://", "claim", detail)).splitlines()) == 1


@given(st.text())
def test_a_copy_of_a_redacted_text_is_the_same_text(text: str) -> None:
    assert redact(redact(text)) == redact(text)


def everything_shown(error: TenureError) -> str:
    """All that a log, a traceback or another process could get to see of an error."""
    copy = pickle.dumps(error).decode("utf-8", "replace")
    return "\n".join([str(error), repr(error), str(error.args), repr(vars(error)), copy])


Made = Callable[[str], TenureError]


@st.composite
def errors_around(draw: st.DrawFn) -> Made:
    """An error of some class with one of its texts left open."""
    kinds: list[Callable[[str, str, str], TenureError]] = [ConfigError, *STORE_ERRORS]
    kind = draw(st.sampled_from(kinds))
    position = draw(st.integers(0, 2))
    return lambda text: kind(*(text if place == position else "x" for place in range(3)))


def check_hidden(made: Made, template: str, secret: str) -> None:
    """The secret is shown nowhere, unless a harmless one would show the same by chance."""
    assume(secret not in everything_shown(made(template.replace("{}", "hunter2hunter2"))))
    assert secret not in everything_shown(made(template.replace("{}", secret)))


# Whitespace ends a URL in running text, so nothing could tell where such a password ends.
password = st.text(
    st.characters(exclude_categories=["C", "Z"]) | st.sampled_from("@/:?#&=%+[]"), min_size=3, max_size=20
)
opaque = st.text(string.ascii_letters + string.digits + "-._~+/", min_size=8, max_size=40)


@pytest.mark.parametrize(
    "template",
    [
        "postgresql://user:{}@db.example:5432/app",
        "redis://:{}@cache",
        "etcds://root:{}@h1,h2,h3",
        "cannot reach https://root:{}@h1:8500/v1/kv?dc=x for a while",
        "mongodb+srv://u:{}@h/?a=b@c",
    ],
)
@given(made=errors_around(), secret=password)
def test_a_password_in_a_url_is_never_shown(template: str, made: Made, secret: str) -> None:
    check_hidden(made, template, secret)


@pytest.mark.parametrize(
    "template",
    ["https://{}@consul:8500", "two: https://{}@a https://{}@b"],
)
@given(made=errors_around(), secret=opaque.filter(lambda text: "/" not in text))
def test_a_token_in_place_of_a_user_is_never_shown(template: str, made: Made, secret: str) -> None:
    check_hidden(made, template, secret)


@pytest.mark.parametrize(
    "template",
    [
        "https://h/?password={}",
        "https://h/?a=1&token={}&b=2",
        "etcd://h?ssl_password={}#x",
        "host=h user=u password={} dbname=d",
        "host=h password='{}'",
        'Password: "{}"',
        "X-Consul-Token: {}",
        "api_key={}; api-key={}",
        "AWS_SECRET_ACCESS_KEY={}",
        "client-credential = {}",
    ],
)
@given(made=errors_around(), secret=password)
def test_the_value_of_a_key_that_names_a_secret_is_never_shown(template: str, made: Made, secret: str) -> None:
    check_hidden(made, template, quote(secret, safe=""))


@pytest.mark.parametrize(
    "template",
    ["Authorization: Bearer {}", "sent 'authorization: bearer {}'", "Basic {}=", "got Bearer {}, 403"],
)
@given(made=errors_around(), secret=opaque)
def test_a_bearer_header_is_never_shown(template: str, made: Made, secret: str) -> None:
    check_hidden(made, template, secret)


@pytest.mark.parametrize(
    "text",
    [
        "etcd://h1:2379,h2:2379",
        "sqlite:///var/lib/tenure.db",
        "token 7 is stale: the highest seen is 9",
        "mail ops@example.org",
        "zookeeper://h1,h2/chroot?timeout=3",
        "a bearer of news",
    ],
)
def test_what_is_no_secret_stays_readable(text: str) -> None:
    assert redact(text) == text


def test_what_is_around_a_secret_stays_readable() -> None:
    assert redact("postgresql://ada:pw@db:5432/app?a=1&password=pw&b=2") == (
        "postgresql://ada:***@db:5432/app?a=1&password=***&b=2"
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"password": "xyzzyplugh"}',
        "{'api_key': 'xyzzyplugh'}",
        "postgresql://ada:xyzzy plugh@db/app",
        "consul://xyzzyplugh/more@db:8500",
        "Authorization: Bearer xyzzyplugh",
        "authorization: basic xyzzy",
        "http://h/?bearer=xyzzyplugh",
        "password=xyzzy,plugh",
        "PGPASSWORD=xyzzyplugh",
        "X-Consul-Token: xyzzyplugh",
        "host=h password='xyzzy plugh' user=u",
        "redis://:xyzzyplugh@h/0",
        "etcd://root:xyzzy@plugh@h1,h2",
    ],
)
def test_secrets_in_every_form_that_engines_use_are_hidden(text: str) -> None:
    assert "xyzzy" not in redact(text)
    assert "plugh" not in redact(text)


def test_control_characters_reach_no_terminal() -> None:
    assert redact("a\x1b[31mb\x00c\x7fd\x9be") == "a [31mb c d e"

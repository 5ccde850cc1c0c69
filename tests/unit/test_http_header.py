"""The grammar of Tenure-Token: one spelling of everything, and whatever else comes is refused without an accident."""

import copy
import pickle
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import ConfigError, Refused, StaleToken, UnverifiedToken
from tenure.model import TOKEN_MAX, Token
from tenure.sinks.http.header import Malformed, Presented, read, value_of
from tenure.sinks.http.refusing import error_in
from tenure.sinks.http.signing import Keys, Secret

TOKENS = st.integers(1, TOKEN_MAX).map(Token)
FENCES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=100)
SECRETS = st.binary(min_size=16, max_size=40)


@given(TOKENS, FENCES)
def test_what_was_written_is_read_and_is_ascii_without_a_comma(token: Token, fence: str) -> None:
    presented = Presented(token, fence)
    value = value_of(presented)
    assert read(value) == presented
    assert value.isascii()
    assert value.isprintable()
    assert "," not in value


@given(st.text() | st.from_regex(r"[0-9]+; fence=[%A-Za-z0-9]+(; expires=[0-9]+; signature=[0-9a-f]+)?"))
def test_whatever_is_read_has_no_other_spelling(value: str) -> None:
    try:
        presented = read(value)
    except Malformed:
        return
    assert value_of(presented) == value


@given(TOKENS, FENCES, SECRETS, SECRETS)
def test_a_signature_holds_for_what_was_signed_by_whom_and_for_nothing_else(
    token: Token, fence: str, ours: bytes, theirs: bytes
) -> None:
    signed = Secret(ours).sign(Presented(token, fence))
    assert read(value_of(signed)) == signed
    assert Keys([theirs, ours]).fault(signed) is None
    assert Keys([theirs]).fault(signed) == (None if theirs == ours else "unsigned")
    other = Presented(Token(token % TOKEN_MAX + 1), fence, signed.expires, signed.signature)
    assert Keys([ours]).fault(other) == "unsigned"
    later = Presented(token, fence, (signed.expires or 0) + 1, signed.signature)
    assert Keys([ours]).fault(later) == "unsigned"
    assert Keys([ours]).fault(Presented(token, fence)) == "unsigned"


@pytest.mark.parametrize(
    "presented",
    [
        Presented(Token(0), "x"),
        Presented(Token(-1), "x"),
        Presented(Token(TOKEN_MAX + 1), "x"),
        Presented(Token(1), ""),
        Presented(Token(1), "a\0b"),
        Presented(Token(1), "\ud800"),
        Presented(Token(1), "é" * 1000),
    ],
)
def test_what_cannot_be_presented_is_told_to_the_leader_before_it_is_sent(presented: Presented) -> None:
    with pytest.raises(ConfigError):
        value_of(presented)


def test_a_secret_is_never_shown() -> None:
    secret = Secret("sixteen bytes at least")
    assert repr(secret) == "<Secret>"
    assert Secret(secret).signed(secret.sign(Presented(Token(1), "x")))
    with pytest.raises(ConfigError) as told:
        Secret("short one")
    assert "short" not in str(told.value)


def test_an_expiry_has_one_spelling_too() -> None:
    value = value_of(Secret("sixteen bytes at least").sign(Presented(Token(1), "x")))
    assert value_of(read(value)) == value
    for zeros in ("0", "00"):
        with pytest.raises(Malformed):
            read(value.replace("expires=", f"expires={zeros}"))


def test_a_header_counts_for_no_longer_than_a_leader_signs_for() -> None:
    secret, presented = Secret("sixteen bytes at least"), Presented(Token(1), "x")
    keys = Keys([secret])
    assert keys.fault(secret.sign(presented, lifetime_s=85)) is None  # of a leader whose clock is ahead
    assert keys.fault(secret.sign(presented, lifetime_s=-25)) is None
    assert keys.fault(secret.sign(presented, lifetime_s=95)) == "early"
    assert keys.fault(secret.sign(presented, lifetime_s=10**9)) == "early"
    assert keys.fault(secret.sign(presented, lifetime_s=-int(time.time()))) == "expired"


def test_a_secret_of_the_environment_is_the_same_as_text_and_as_bytes() -> None:
    raw = b"hunter2 \xff\xfe hunter2"
    signed = Secret(raw.decode("utf-8", "surrogateescape")).sign(Presented(Token(1), "x"))
    assert Keys([raw]).fault(signed) is None


def test_a_secret_that_cannot_be_bytes_is_told_without_it() -> None:
    with pytest.raises(ConfigError, match="UTF-8") as told:
        Secret("hunter2 hunter2 hunter2 \ud800")
    assert told.value.__context__ is None
    assert "hunter2" not in f"{told.value} {told.value.args}"


@pytest.mark.parametrize("write", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_secret_is_not_pickled(write: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        write(Secret("sixteen bytes at least"))


def test_what_a_service_says_of_the_highest_token_is_not_believed_if_it_cannot_be() -> None:
    def told(word: str, highest: str) -> object:
        headers = {"Tenure-Refused": word, "Tenure-Highest": highest}
        return error_in(409, headers, service="s", operation="post", token=7)

    assert repr(told("stale", "8")) == repr(StaleToken(7, 8))
    assert repr(told("unverified", "0")) == repr(UnverifiedToken(7, 0))
    for highest in ("9" * 5000, "000", "7", "6", "0", "08", "", "²", "８", " 8", "-8", str(TOKEN_MAX + 1)):
        assert isinstance(told("stale", highest), Refused), highest
    for highest in ("9" * 5000, "00", "", str(TOKEN_MAX + 1)):
        assert isinstance(told("unverified", highest), Refused), highest

"""The grammar of Tenure-Token: one spelling of everything, and whatever else comes is refused without an accident."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import ConfigError
from tenure.model import TOKEN_MAX, Token
from tenure.sinks.http.header import Malformed, Presented, read, value_of
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

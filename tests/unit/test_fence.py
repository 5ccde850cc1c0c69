"""The pure rule: a token is admitted iff it is not lower than the highest one seen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure import sinks
from tenure.errors import StaleToken
from tenure.model import TOKEN_MAX, Token
from tenure.sinks import Fence

TOKENS = st.integers(1, TOKEN_MAX).map(Token)


@given(st.integers(0, TOKEN_MAX), TOKENS)
def test_a_token_is_admitted_iff_it_is_not_lower_than_the_highest(highest: int, token: Token) -> None:
    fence = Fence(highest)
    if token >= highest:
        fence.admit(token)
        assert fence.highest == token
    else:
        with pytest.raises(StaleToken) as caught:
            fence.admit(token)
        assert (caught.value.token, caught.value.highest) == (token, highest)
        assert fence.highest == highest


@given(st.lists(TOKENS))
def test_whatever_comes_the_admitted_tokens_never_go_down(tokens: list[Token]) -> None:
    fence, admitted = Fence(), list[int]()
    for token in tokens:
        try:
            fence.admit(token)
        except StaleToken:
            continue
        admitted.append(token)
    assert admitted == sorted(admitted)
    assert admitted[-1:] == ([max(tokens)] if tokens else [])


def test_a_new_fence_admits_the_first_token_there_is() -> None:
    fence = Fence()
    fence.admit(Token(1))
    assert fence.highest == 1


@pytest.mark.parametrize("name", sinks.EXPORTS)
def test_every_name_of_the_package_can_be_imported_from_it(name: str) -> None:
    assert name in dir(sinks)
    assert getattr(sinks, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'tenure\.sinks' has no attribute 'Nonsense'"):
        _ = sinks.Nonsense

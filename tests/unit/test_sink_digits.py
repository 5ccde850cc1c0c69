"""What a fence may hold where it is a text of its own, and what is refused."""

from typing import Any

import pytest

from tenure.errors import ConfigError, Refused
from tenure.model import TOKEN_MAX
from tenure.sinks.digits import digits_of, number_in


@pytest.mark.parametrize("token", [1, 7, TOKEN_MAX])
def test_a_token_is_written_so_that_texts_sort_as_numbers_do_and_is_read_back(token: int) -> None:
    text = digits_of(token)
    assert len(text) == 20
    assert number_in(text.encode(), "f", "etcd://x") == token


@pytest.mark.parametrize("token", [0, -1, TOKEN_MAX + 1, "7", 7.0, 7.5, True, None])
def test_what_no_token_can_be_is_not_written(token: Any) -> None:
    with pytest.raises(ConfigError, match="token"):
        digits_of(token)


@pytest.mark.parametrize("mended", [b"7", b"07", b"7\n", b" 7 "])
def test_a_number_that_somebody_has_mended_is_read_in_any_spelling(mended: bytes) -> None:
    assert number_in(mended, "f", "etcd://x") == 7


@pytest.mark.parametrize("broken", [b"", b"-5", b"+5", b"1_0", b"seven", b"\xff", "٧".encode(), b"7" * 21, b"7 8"])
def test_whatever_is_no_number_is_refused_and_shown(broken: bytes) -> None:
    with pytest.raises(
        Refused, match=r"etcd://x: seal was refused: the fence f has .* where a number must be: mend it"
    ):
        number_in(broken, "f", "etcd://x")

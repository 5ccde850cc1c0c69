"""Which fence can have a name in every server's table."""

import pytest

from tenure.errors import ConfigError
from tenure.sinks.sql.talk import checked


@pytest.mark.parametrize("fence", ["f", "f" * 1000, "\N{SNOWMAN}" * 333, "\N{BILLIARDS}" * 250])
def test_a_name_of_up_to_a_thousand_bytes_is_one(fence: str) -> None:
    assert checked(fence, 7) == 7


@pytest.mark.parametrize("fence", ["", "a\0b", "f" * 1001, "\N{SNOWMAN}" * 334, "\N{BILLIARDS}" * 251])
def test_any_other_name_is_refused(fence: str) -> None:
    with pytest.raises(ConfigError):
        checked(fence, 7)

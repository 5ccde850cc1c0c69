"""One worker is given all tests of a group. When it was not, every worker started every engine, and nothing failed."""

import pytest

from tests.sharing import LONGEST, group_of


def test_the_name_of_its_group_is_part_of_what_a_test_is_called_by(request: pytest.FixtureRequest) -> None:
    group = group_of(request.node)
    assert group == "tests/engines/test_groups.py"
    # pytest-xdist tells its workers by this option that it hands out groups. It knows them by the end of a test's name.
    assert request.node.nodeid.endswith(f"@{group}") == bool(request.config.getoption("loadgroup", default=False))


def test_the_groups_that_come_first_exist(request: pytest.FixtureRequest) -> None:
    assert [place for place in LONGEST if not (request.config.rootpath / place).exists()] == []

"""A database of each kind that an app may keep its record in."""

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

CLUSTERS = {"postgresql": "postgresql", "mysql": "mariadb"}


@pytest.fixture
def new_database(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Make a database with nothing in it on a server of a kind, and return its URL."""

    def make(kind: str) -> str:
        name, cluster = f"books_{uuid4().hex[:12]}", request.getfixturevalue(CLUSTERS[kind])
        cluster.sql(f"CREATE DATABASE {name}")
        found: str = cluster.url
        return f"{found.rpartition('/')[0]}/{name}"

    return make


@pytest.fixture(params=["sqlite", *CLUSTERS])
def url(request: pytest.FixtureRequest, tmp_path: Path, new_database: Callable[[str], str]) -> str:
    """A database of each kind, with nothing in it."""
    kind: str = request.param
    return f"sqlite://{tmp_path}/books.db" if kind == "sqlite" else new_database(kind)

"""A database of each kind that an app may keep its record in."""

from pathlib import Path
from uuid import uuid4

import pytest


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind, with nothing in it."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/books.db"
    name = f"books_{uuid4().hex[:12]}"
    cluster = request.getfixturevalue({"postgresql": "postgresql", "mysql": "mariadb"}[request.param])
    cluster.sql(f"CREATE DATABASE {name}")
    found: str = cluster.url
    return f"{found.rpartition('/')[0]}/{name}"

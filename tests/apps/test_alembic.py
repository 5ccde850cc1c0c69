"""Alembic in three lines: many that upgrade at once apply each revision once, and a runner that was succeeded commits nothing."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from tenure.contrib.alembic import fenced_migrations
from tenure.errors import ConfigError, StaleToken

ENV = """
from alembic import context

from tenure.contrib.alembic import fenced_migrations

with fenced_migrations(context.config.get_main_option("sqlalchemy.url")) as engine, engine.connect() as connection:
    context.configure(connection=connection, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()
"""
REVISION = """
from alembic import op

revision, down_revision = "r{number}", {before}


def upgrade():
    op.execute("{statement}")
"""
UPGRADE = """
import sys
from alembic.command import upgrade
from alembic.config import Config

settings = Config()
settings.set_main_option("script_location", "scripts")
settings.set_main_option("sqlalchemy.url", sys.argv[1])
upgrade(settings, "head")
"""
REVISIONS, RUNNERS = 6, 4
DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
FENCES = {"postgresql": "tenure_fence.fences", "mysql": "tenure_fence"}


@pytest.fixture(params=DRIVERS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def url(kind: str, new_database: Callable[[str], str]) -> str:
    return new_database(kind).replace(f"{kind}://", f"{DRIVERS[kind]}://")


def test_many_that_upgrade_at_once_apply_each_revision_once(url: str, tmp_path: Path) -> None:
    versions = tmp_path / "scripts" / "versions"
    versions.mkdir(parents=True)
    (tmp_path / "scripts" / "env.py").write_text(ENV)
    for number in range(REVISIONS):
        statement = f"INSERT INTO mark VALUES ({number})" if number else "CREATE TABLE mark (revision int)"  # noqa: S608
        before = repr(f"r{number - 1}" if number else None)
        (versions / f"r{number}.py").write_text(REVISION.format(number=number, before=before, statement=statement))
    runners = [
        subprocess.Popen([sys.executable, "-c", UPGRADE, url], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        for _ in range(RUNNERS)
    ]
    errors = [runner.communicate(timeout=90)[1] for runner in runners]
    assert [runner.returncode for runner in runners] == [0] * RUNNERS, errors
    with create_engine(url, poolclass=NullPool).connect() as connection:
        marks = connection.execute(text("SELECT revision FROM mark ORDER BY revision")).scalars().all()
    assert marks == list(range(1, REVISIONS))


def test_a_runner_that_was_succeeded_commits_nothing(kind: str, url: str) -> None:
    plain = create_engine(url, poolclass=NullPool)
    with plain.begin() as connection:
        connection.execute(text("CREATE TABLE mark (revision int)"))
    with fenced_migrations(url) as engine:
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO mark VALUES (1)"))
        with plain.begin() as connection:  # As a successor's seal does.
            connection.execute(text(f"UPDATE {FENCES[kind]} SET highest = highest + 1"))  # noqa: S608
        with pytest.raises(StaleToken), engine.begin() as connection:
            connection.execute(text("INSERT INTO mark VALUES (2)"))
    with plain.connect() as connection:
        assert connection.execute(text("SELECT revision FROM mark")).scalars().all() == [1]


def test_a_database_that_cannot_be_fenced_is_one_error() -> None:
    with pytest.raises(ConfigError, match="must be of PostgreSQL"), fenced_migrations("sqlite:///x.db"):
        pass

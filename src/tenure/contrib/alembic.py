"""Alembic under an election: in ``env.py``, ``with fenced_migrations(url) as engine, engine.connect() as connection: …``."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tenure import sync
from tenure.apps.ledger.opening import open_ledger
from tenure.apps.migrate.runner import ELECTION
from tenure.errors import ConfigError, redact
from tenure.sinks.sql.extras import needed
from tenure.sinks.sql.on_sqlalchemy import fenced_engine
from tenure.timing import Seconds

if TYPE_CHECKING:
    from sqlalchemy import Engine


@contextmanager
def fenced_migrations(
    url: str, *, store: str | None = None, election: str = ELECTION, ttl: Seconds | None = None
) -> Iterator["Engine"]:
    """Wait for the office, and give an Engine whose transactions are committed only while nobody has succeeded us.

    ``url`` is what SQLAlchemy takes, for PostgreSQL or MySQL. Elections are held in the database itself, unless ``store`` names another
    place. Of those who run at once one migrates; the others find nothing to do when their turn comes. A commit of a runner that was
    succeeded raises StaleToken. Does not fence what the database commits by itself: DDL in MySQL, ``autocommit_block`` of Alembic.
    """
    with needed("sqlalchemy", "sqlalchemy"):
        from sqlalchemy import create_engine  # noqa: PLC0415  (only if it is used)
        from sqlalchemy.engine import make_url  # noqa: PLC0415
        from sqlalchemy.pool import NullPool  # noqa: PLC0415
    parts = make_url(url)
    if parts.get_backend_name() not in {"postgresql", "mysql", "mariadb"}:
        raise ConfigError("url", redact(url), "must be of PostgreSQL, MySQL or MariaDB")
    database = parts.set(drivername=parts.get_backend_name()).render_as_string(hide_password=False)
    ledger = open_ledger(database)
    with sync.open_store(store or database) as opened, sync.Lock(opened, election, ttl=ttl, sinks=[ledger]) as term:
        engine = create_engine(parts, poolclass=NullPool)
        try:
            yield fenced_engine(engine, term)
        finally:
            engine.dispose()

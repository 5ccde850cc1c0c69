"""Databases: each server serves by itself, one takes writes, and replicas follow it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tenure.testing.engines import EngineFailed, MariaDbCluster, PostgresCluster, Tls
from tenure.testing.engines.processes import wait_for

Database = PostgresCluster | MariaDbCluster
_PATIENCE_S = 60
_NAMES = {"postgresql": "postgres", "mariadb": "test"}


@pytest.fixture(params=[PostgresCluster, MariaDbCluster], ids=["postgresql", "mariadb"])
def make(request: pytest.FixtureRequest) -> Callable[..., Database]:
    cluster: Callable[..., Database] = request.param
    return cluster


def answers(database: Database, statement: str, node: int) -> str:
    try:
        return database.sql(statement, node=database.nodes[node], database=_NAMES[database.engine])
    except EngineFailed:
        return ""


def test_a_server_that_was_killed_comes_back_with_its_data(make: Callable[..., Database]) -> None:
    with make() as database:
        [node] = database.nodes
        database.sql("CREATE TABLE kept (value int); INSERT INTO kept VALUES (7)", database=_NAMES[database.engine])
        node.kill()
        assert answers(database, "SELECT 1", 0) == ""
        node.start()
        assert answers(database, "SELECT value FROM kept", 0) == "7"
        assert database.leader() is node


def test_a_server_that_is_paused_answers_nobody_until_it_is_resumed(make: Callable[..., Database]) -> None:
    with make() as database:
        [node] = database.nodes
        node.pause()
        assert not database.serves(node)
        node.resume()
        assert database.serves(node)


def test_a_replica_follows_takes_no_writes_and_can_be_promoted(make: Callable[..., Database]) -> None:
    with make(2) as database:
        name = _NAMES[database.engine]
        first, second = database.nodes
        assert database.leader() is first
        database.sql("CREATE TABLE kept (value int)", database=name)
        assert wait_for(lambda: answers(database, "SELECT count(*) FROM kept", 1) == "0", _PATIENCE_S)
        if database.engine == "postgresql":  # In MariaDB root may write whatever read_only says.
            with pytest.raises(EngineFailed, match="read-only"):
                database.sql("INSERT INTO kept VALUES (1)", node=second, database=name)
        first.kill()
        database.promote(second)
        assert database.leader() is second
        database.sql("INSERT INTO kept VALUES (2)", node=second, database=name)
        assert answers(database, "SELECT value FROM kept", 1) == "2"
        second.kill()
        second.start()
        assert database.leads(second)  # It stays what it was made.


def test_servers_with_a_password_and_certificates_serve_and_follow(
    make: Callable[..., Database], tmp_path: Path
) -> None:
    with make(2, tls=Tls(tmp_path), password="geheim") as database:
        name = _NAMES[database.engine]
        database.sql("CREATE TABLE kept (value int)", database=name)
        assert wait_for(lambda: answers(database, "SELECT count(*) FROM kept", 1) == "0", _PATIENCE_S)
        assert str(tmp_path / "ca.pem") in database.url
        assert "geheim" in database.url

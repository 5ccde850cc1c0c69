"""Where blocks leave something half done: a server, the fence of one test, and what has landed."""

from types import SimpleNamespace
from typing import Any, NamedTuple

from tenure.model import Token
from tenure.testing.engines import MariaDbCluster, PostgresCluster


class Place(NamedTuple):
    """One server, and the fence of one test."""

    server: Any
    fence: str

    @property
    def url(self) -> str:
        return str(self.server.url)

    @property
    def old(self) -> SimpleNamespace:
        return SimpleNamespace(fence=self.fence, token=Token(1))

    @property
    def new(self) -> SimpleNamespace:
        return SimpleNamespace(fence=self.fence, token=Token(2))

    def write(self, token: int) -> str:
        return f"INSERT INTO half_done VALUES ('{self.fence}', {token})"  # noqa: S608

    def sql(self, words: str) -> str:
        is_mariadb = isinstance(self.server, MariaDbCluster)
        return str(self.server.sql(words, database="test") if is_mariadb else self.server.sql(words))

    def landed(self) -> list[str]:
        return self.sql(f"SELECT token FROM half_done WHERE fence = '{self.fence}' ORDER BY token").split()  # noqa: S608


def place_at(server: PostgresCluster | MariaDbCluster, fence: str) -> Place:
    place = Place(server, fence)
    place.sql("CREATE TABLE IF NOT EXISTS half_done (fence varchar(200), token int)")
    return place

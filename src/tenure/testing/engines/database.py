"""What clusters of databases have in common: one server takes writes, and each serves by itself."""

from abc import abstractmethod
from collections.abc import Sequence

from tenure.testing.engines.binaries import Binary
from tenure.testing.engines.certificates import Tls
from tenure.testing.engines.cluster import Cluster, EngineFailed, Node
from tenure.testing.engines.privileges import reachable


class Database(Cluster):
    """A primary and ``size - 1`` replicas, asynchronous ones: what the primary answered may be missing in them.

    Anybody from this machine is let in, unless a ``password`` is set. ``options`` are further settings of the server.
    """

    ports_per_node = 1
    inside = reachable()

    def __init__(  # noqa: PLR0913  (each by its name)
        self,
        size: int = 1,
        *,
        binary: Binary | None = None,
        isolated: bool = False,
        tls: Tls | None = None,
        host: str = "127.0.0.1",
        password: str = "",
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(size, binary, host, isolated, options)
        self.tls, self._password = tls, password

    @property
    def has_quorum(self) -> bool:
        """Every server serves by itself."""
        return True

    @abstractmethod
    def sql(self, statement: str, *, node: Node | None = None, database: str = "") -> str:
        """Run SQL as the one who may do everything, and return what it prints; raises EngineFailed."""

    @abstractmethod
    def promote(self, node: Node) -> None:
        """Make a replica a primary; on return it takes writes. The old one, if it runs, does as well."""

    def serves(self, node: Node) -> bool:
        return self.says(node, "SELECT 1") == "1"

    def says(self, node: Node, statement: str) -> str:
        """What a node answers; nothing if it does not."""
        try:
            return self.sql(statement, node=node)
        except EngineFailed:
            return ""

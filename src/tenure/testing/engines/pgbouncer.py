"""PgBouncer in front of a PostgreSQL: every transaction may get another connection."""

from tenure.testing.engines.asking import run_tool
from tenure.testing.engines.binaries import Binary
from tenure.testing.engines.cluster import Cluster, EngineFailed, Node
from tenure.testing.engines.postgresql import PostgresCluster
from tenure.testing.engines.privileges import as_nobody, hand_over, reachable

_SETTINGS = """\
[databases]
postgres = host={host} port={port} dbname=postgres user=postgres
[pgbouncer]
listen_addr = {own_host}
listen_port = {own_port}
auth_type = any
pool_mode = {mode}
unix_socket_dir =
max_client_conn = 500
default_pool_size = 5
admin_users = postgres
"""


class PgBouncer(Cluster):
    """One pooler for the first server of a cluster that runs. ``mode`` is its ``pool_mode``."""

    engine = "pgbouncer"
    ports_per_node = 1
    inside = reachable()
    scheme = "postgresql"

    def __init__(self, server: PostgresCluster, *, mode: str = "transaction", binary: Binary | None = None) -> None:
        super().__init__(1, binary, "127.0.0.1", False, ())
        self._server, self._mode = server, mode

    @property
    def url(self) -> str:
        """What ``open_store`` takes."""
        return f"postgresql://postgres@{self.endpoints[0]}/postgres"

    @property
    def has_quorum(self) -> bool:
        """It serves by itself."""
        return True

    def command(self, node: Node) -> list[str]:
        server = self._server.nodes[0]
        settings = node.folder / "pgbouncer.ini"
        settings.write_text(
            _SETTINGS.format(
                host=server.host, port=server.ports[0], own_host=node.host, own_port=node.ports[0], mode=self._mode
            )
        )
        hand_over(node.folder)
        hand_over(settings)
        return [*as_nobody(), self.binary.program, str(settings)]

    def serves(self, node: Node) -> bool:
        return self.leads(node)

    def leads(self, node: Node) -> bool:
        command = [self.binary.tool, "--no-psqlrc", "-qAt", "-d", "postgres", "-c", "SELECT 1"]
        environment = {
            "PGHOST": node.host,
            "PGPORT": str(node.ports[0]),
            "PGUSER": "postgres",
            "PGCONNECT_TIMEOUT": "2",
        }
        try:
            return run_tool(command, "psql", environment, "").strip() == "1"
        except EngineFailed:
            return False

"""PostgreSQL: a primary, and replicas that stream from it without being waited for."""

from pathlib import Path

from tenure.testing.engines.asking import run_tool
from tenure.testing.engines.cluster import EngineFailed, Node
from tenure.testing.engines.database import Database
from tenure.testing.engines.privileges import as_nobody, hand_over
from tenure.testing.engines.processes import wait_for

_START_S = 60
# For tests: what is written is as durable as on any server; what makes a server slow to start or to stop is left out.
_SETTINGS = {
    "hot_standby_feedback": "on",
    "max_connections": "200",
    "max_wal_senders": "5",
    "shared_buffers": "16MB",
    "wal_keep_size": "64MB",
    "wal_receiver_timeout": "2s",
    "wal_retrieve_retry_interval": "100ms",
    "wal_sender_timeout": "2s",
}


class PostgresCluster(Database):
    """``options`` are settings such as ``log_statement=all``. A replica serves reads until ``promote`` makes it the primary.

    ``node.start`` of an old primary does not make it a replica; nothing keeps it from serving, which is what a test of two
    primaries wants.
    """

    engine = "postgresql"
    scheme = "postgresql"

    @property
    def url(self) -> str:
        """What ``open_store`` takes: all nodes, and a name that may do everything."""
        secret = f":{self._password}" if self._password else ""
        mode = "" if self.tls is None else f"?sslmode=verify-full&sslrootcert={self.tls.ca}"
        return f"postgresql://postgres{secret}@{','.join(self.endpoints)}/postgres{mode}"

    def sql(self, statement: str, *, node: Node | None = None, database: str = "") -> str:
        node = node or self.nodes[0]
        command = [
            self.binary.tool,
            "--no-psqlrc",
            "-qAt",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            database or "postgres",
            "-f",
            "-",
        ]
        environment = {
            "PGHOST": node.host,
            "PGPORT": str(node.ports[0]),
            "PGUSER": "postgres",
            "PGPASSWORD": self._password,
            "PGCONNECT_TIMEOUT": "2",
        }
        if self.tls is not None:
            environment |= {
                "PGSSLMODE": "verify-full",
                "PGSSLROOTCERT": str(self.tls.ca),
                "PGSSLCERT": str(self.tls.client.certificate),
                "PGSSLKEY": str(self.tls.client.key),
            }
        return run_tool(command, "psql", environment, statement).strip()

    def promote(self, node: Node) -> None:
        self.sql("SELECT pg_promote(true, 60)", node=node)

    def command(self, node: Node) -> list[str]:
        data = node.folder / "data"
        if not data.exists():
            self._prepare(node, data)
        settings = {
            **_SETTINGS,
            "listen_addresses": node.host,
            "port": str(node.ports[0]),
            "unix_socket_directories": "",  # the path to one may be longer than such paths may be
            **self._tls_settings(node),
            **dict(option.split("=", 1) for option in self.options),
        }
        inside = self.network.enter(self.nodes.index(node)) if self.network is not None else []
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [*inside, *as_nobody(), self.binary.program, "-D", str(data), *flags]

    def leads(self, node: Node) -> bool:
        return self.says(node, "SELECT pg_is_in_recovery()") == "f"

    def _prepare(self, node: Node, data: Path) -> None:
        hand_over(node.folder)
        tools = Path(self.binary.program).resolve().parent
        if node is self.nodes[0]:
            secret = node.folder / "password"
            secret.write_text(self._password or "unused")
            hand_over(secret)
            how = "scram-sha-256" if self._password else "trust"
            made = ["initdb", "-D", data, "-U", "postgres", "-A", how, f"--pwfile={secret}", "-E", "UTF8", "--no-sync"]
        else:
            first = self.nodes[0]
            if not wait_for(lambda: self.serves(first), _START_S):
                raise EngineFailed(first.name, f"does not serve after {_START_S} s", first.tail())
            source = f"host={first.host} port={first.ports[0]} user=postgres password={self._password or 'unused'}"
            made = ["pg_basebackup", "-D", data, "-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", source]
        program, *arguments = map(str, made)
        run_tool([*as_nobody(), str(tools / program), *arguments], program, {"HOME": str(node.folder)}, "")
        with (data / "pg_hba.conf").open("a") as rules:  # initdb lets in only who comes from this very network
            rules.write(f"host all all all {'scram-sha-256' if self._password else 'trust'}\n")
            rules.write(f"host replication all all {'scram-sha-256' if self._password else 'trust'}\n")

    def _tls_settings(self, node: Node) -> dict[str, str]:
        if self.tls is None:
            return {}
        server = self.tls.issue(f"{self.folder.name}-{node.name}", node.host)
        key = node.folder / "server.key"
        key.write_bytes(server.key.read_bytes())
        hand_over(key)
        key.chmod(0o600)
        authority = node.folder / "ca.pem"
        authority.write_bytes(self.tls.ca.read_bytes())
        certificate = node.folder / "server.pem"
        certificate.write_bytes(server.certificate.read_bytes())
        return {
            "ssl": "on",
            "ssl_cert_file": str(certificate),
            "ssl_key_file": str(key),
            "ssl_ca_file": str(authority),
        }

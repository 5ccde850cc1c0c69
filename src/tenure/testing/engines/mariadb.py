"""MariaDB: a primary, and replicas that copy from it without being waited for."""

from pathlib import Path
from typing import Any

from tenure.testing.engines.asking import run_tool
from tenure.testing.engines.cluster import Node
from tenure.testing.engines.database import Database
from tenure.testing.engines.privileges import as_nobody, hand_over


class MariaDbCluster(Database):
    """``options`` are settings such as ``--max-connections=5``. ``root`` may do everything; replicas are read-only to others."""

    engine = "mariadb"
    scheme = "mysql"

    def __init__(self, size: int = 1, **settings: Any) -> None:
        super().__init__(size, **settings)
        self._replicas: set[Node] = set()

    @property
    def url(self) -> str:
        """What ``open_store`` takes: all nodes, the database ``test``, and a name that may do everything."""
        secret = f":{self._password}" if self._password else ""
        mode = "" if self.tls is None else f"?ssl_ca={self.tls.ca}"
        return f"mysql://root{secret}@{','.join(self.endpoints)}/test{mode}"

    def sql(self, statement: str, *, node: Node | None = None, database: str = "") -> str:
        node = node or self.nodes[0]
        where = [
            f"--host={node.host}",
            f"--port={node.ports[0]}",
            "--protocol=tcp",
            "--user=root",
            "--connect-timeout=2",
        ]
        if self.tls is not None:
            client = self.tls.client
            where += [f"--ssl-ca={self.tls.ca}", f"--ssl-cert={client.certificate}", f"--ssl-key={client.key}"]
        command = [self.binary.tool, "--no-defaults", *where, "--batch", "--skip-column-names"]
        secret = {"MYSQL_PWD": self._password}
        return run_tool([*command, *([database] if database else [])], "mariadb", secret, statement).strip()

    def promote(self, node: Node) -> None:
        self.sql("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0", node=node)
        self._replicas.discard(node)

    def command(self, node: Node) -> list[str]:
        data = node.folder / "data"
        begin = []
        if not data.exists():
            self._install(node, data)
            begin = [f"--init-file={self._written_down(node)}"]
        inside = self.network.enter(self.nodes.index(node)) if self.network is not None else []
        return [
            *inside,
            *as_nobody(),
            self.binary.program,
            "--no-defaults",
            f"--datadir={data}",
            "--socket=socket",  # in the folder of the data: a whole path may be longer than sockets' may
            f"--pid-file={node.folder / 'pid'}",
            f"--tmpdir={node.folder}",
            f"--bind-address={node.host}",
            f"--port={node.ports[0]}",
            f"--server-id={self.nodes.index(node) + 1}",
            "--log-bin=binlog",
            "--skip-name-resolve",
            "--innodb-buffer-pool-size=32M",
            "--innodb-log-file-size=16M",
            f"--read-only={int(node in self._replicas)}",
            *begin,
            *self._tls_flags(node),
            *self.options,
        ]

    def leads(self, node: Node) -> bool:
        return self.says(node, "SELECT @@global.read_only") == "0"

    def _install(self, node: Node, data: Path) -> None:
        hand_over(node.folder)
        program = Path(self.binary.tool).with_name("mariadb-install-db")
        command = [
            *as_nobody(),
            str(program),
            "--no-defaults",
            f"--datadir={data}",
            f"--tmpdir={node.folder}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ]
        run_tool(command, program.name, {"HOME": str(node.folder)}, "")

    def _written_down(self, node: Node) -> Path:
        """What a server does when it runs for the first time, on its own and not as part of what replicas copy."""
        first = self.nodes[0]
        orders = [
            "SET sql_log_bin = 0",
            *(f"DROP USER IF EXISTS root@'{host}'" for host in ("127.0.0.1", "::1")),  # they have no password
            f"CREATE USER root@'%' IDENTIFIED BY '{self._password}'",
            "GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION",
            "CREATE DATABASE test",
        ]
        if node is not first:
            self._replicas.add(node)
            source = f"MASTER_HOST='{first.host}', MASTER_PORT={first.ports[0]}, MASTER_USER='root', "
            source += f"MASTER_PASSWORD='{self._password}', MASTER_CONNECT_RETRY=1, MASTER_USE_GTID=slave_pos"
            orders += [f"CHANGE MASTER TO {source}", "START SLAVE"]
        file = node.folder / "begin.sql"
        file.write_text("".join(f"{order};\n" for order in orders))
        return file

    def _tls_flags(self, node: Node) -> list[str]:
        if self.tls is None:
            return []
        server = self.tls.issue(f"{self.folder.name}-{node.name}", node.host)
        files = {"ssl-cert": server.certificate, "ssl-key": server.key, "ssl-ca": self.tls.ca}
        flags = []
        for name, file in files.items():
            copy = node.folder / f"{name}.pem"
            copy.write_bytes(file.read_bytes())
            hand_over(copy)
            flags.append(f"--{name}={copy}")
        return [*flags, *(["--require-secure-transport"] if self.tls.clients_need_certificates else [])]

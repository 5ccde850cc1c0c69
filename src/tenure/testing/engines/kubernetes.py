"""Clusters of Kubernetes, as far as a Lease goes: API servers over an etcd, and nothing that would run a container."""

import json
import secrets
import ssl
from collections.abc import Sequence
from pathlib import Path

from tenure.errors import ConfigError
from tenure.testing.engines.asking import ask, run_tool
from tenure.testing.engines.binaries import Binary, MissingEngine
from tenure.testing.engines.certificates import Tls
from tenure.testing.engines.cluster import Cluster, Node
from tenure.testing.engines.etcd import EtcdCluster

_OK = 200
_ADMIN = "admin"
_USERS = ("alice", "bob")
# What it tells others to reach it at must be no loopback, or it looks for a network that the machine may not have. Nobody
# asks for it. Both are addresses for documentation.
_TOLD_ADDRESS, _TOLD_ADDRESS_6 = "192.0.2.1", "2001:db8::1"


class KubernetesCluster(Cluster):
    """``size`` API servers over ``etcd``, a cluster of ``etcd_size`` nodes. ``options`` are further flags of the API server.

    ``kubeconfig`` is a file with a context for each API server, named as its node is, and the rights of an administrator.
    The users ``alice`` and ``bob`` have no rights until ``kubectl`` gives them some. Everybody is known by a token, which
    ``token_of`` returns, or by a certificate of ``tls`` with the name of the user.
    """

    engine = "kubernetes"
    scheme = "kubernetes"
    ports_per_node = 1

    def __init__(
        self,
        size: int = 1,
        *,
        binary: Binary | None = None,
        host: str = "127.0.0.1",
        etcd_size: int = 3,
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(size, binary, host, isolated=False, options=options)
        self.etcd = EtcdCluster(etcd_size)
        self._tokens = {user: secrets.token_urlsafe(16) for user in (_ADMIN, *_USERS)}

    @property
    def url(self) -> str:
        return f"kubernetes://default?kubeconfig={self.kubeconfig}"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def has_quorum(self) -> bool:
        """Whether an API server that runs can serve: they do not need each other, but their etcd."""
        return self.etcd.has_quorum

    def token_of(self, user: str) -> str:
        """The token of ``admin``, ``alice`` or ``bob``."""
        if user not in self._tokens:
            raise ConfigError("user", user, f"must be one of {', '.join(self._tokens)}")
        return self._tokens[user]

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run ``kubectl`` as the administrator, and return what it prints; raises EngineFailed."""
        if not self.binary.tool:
            raise MissingEngine("kubectl", "make engines in a clone of tenure")
        command = [
            self.binary.tool,
            f"--kubeconfig={self.kubeconfig}",
            f"--cache-dir={self.folder / 'cache'}",
            *arguments,
        ]
        return run_tool(command, f"kubectl {' '.join(arguments)}", {}, stdin)

    def command(self, node: Node) -> list[str]:
        server = self.tls.issue(f"{self.folder.name}-{node.name}", node.host)
        return [
            self.binary.program,
            f"--etcd-servers={','.join(f'http://{endpoint}' for endpoint in self.etcd.endpoints)}",
            f"--bind-address={node.host}",
            f"--advertise-address={_TOLD_ADDRESS_6 if ':' in node.host else _TOLD_ADDRESS}",
            f"--secure-port={node.ports[0]}",
            f"--service-cluster-ip-range={'fd00::/112' if ':' in node.host else '10.0.0.0/24'}",
            f"--tls-cert-file={server.certificate}",
            f"--tls-private-key-file={server.key}",
            f"--client-ca-file={self.tls.ca}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://tenure.example",
            f"--service-account-signing-key-file={self._signer.key}",
            f"--service-account-key-file={self._signer.certificate}",
            # What needs controllers, which do not run here, or would tell others of addresses that are nobody's.
            "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none",
            *self.options,
        ]

    def serves(self, node: Node) -> bool:
        headers = {"Authorization": f"Bearer {self.token_of(_ADMIN)}"}
        # It may be ready before it has made the namespace that everybody expects to be there.
        paths = ("/readyz", "/api/v1/namespaces/default")
        return all(ask(node, self._context, path, headers=headers)[0] == _OK for path in paths)

    def leads(self, node: Node) -> bool:
        """API servers are equals: the first that can be asked stands for a leader."""
        return node is next((other for other in self.nodes if other.reachable), None)

    def mend(self) -> None:
        self.etcd.mend()
        super().mend()

    def keep(self) -> None:
        self.etcd.keep()
        super().keep()

    def _start(self) -> None:
        self.etcd.inside = self.folder  # Who is told where the logs are finds all of them there.
        self._undo.enter_context(self.etcd)
        authority = self.folder / "tls"
        authority.mkdir()
        self.tls = Tls(authority)
        # Without a certificate, which would count for more than the token.
        self._context = ssl.create_default_context(cafile=self.tls.ca)
        self._signer = self.tls.issue("service-accounts")
        groups = {_ADMIN: ',"system:masters"'}
        (self.folder / "tokens.csv").write_text(
            "".join(f"{token},{user},{user}{groups.get(user, '')}\n" for user, token in self._tokens.items())
        )
        super()._start()
        self.kubeconfig.write_text(json.dumps(self._configuration(), indent=2))

    def _configuration(self) -> dict[str, object]:
        """What kubectl reads, in the JSON that is YAML as well."""
        names = [node.name for node in self.nodes]
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": node.name,
                    "cluster": {"server": f"https://{node.endpoint}", "certificate-authority": str(self.tls.ca)},
                }
                for node in self.nodes
            ],
            "users": [{"name": _ADMIN, "user": {"token": self.token_of(_ADMIN)}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": _ADMIN}} for name in names],
            "current-context": names[0],
        }

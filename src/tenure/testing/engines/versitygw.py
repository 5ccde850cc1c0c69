"""An S3 server: Versity's gateway over a folder."""

import secrets
from collections.abc import Sequence

from tenure.testing.engines.asking import ask
from tenure.testing.engines.binaries import Binary
from tenure.testing.engines.cluster import Cluster, Node, address

_HEALTH = "/-/health"  # No bucket can have so short a name.
_OK = 200


class VersityGateway(Cluster):
    """One S3 server, with ``options`` on its command line such as ``--readonly``. It keeps its buckets in a folder of the node.

    ``access_key`` and ``secret_key`` are those of its only user, who may do everything; a secret key that is not given is made up.
    Its region is ``us-east-1``. It waits for no disk: buckets outlive its process, and not the power of the machine. The folder
    for temporary files must be on a file system that has extended attributes.
    """

    engine = "versitygw"
    scheme = "http"
    ports_per_node = 1

    def __init__(
        self,
        *,
        binary: Binary | None = None,
        access_key: str = "tenure",
        secret_key: str = "",
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(1, binary, "127.0.0.1", False, options)
        self.access_key, self.secret_key = access_key, secret_key or secrets.token_hex(16)

    @property
    def url(self) -> str:
        """What ``S3Sink`` and boto3 take as ``endpoint_url``."""
        return super().url

    def command(self, node: Node) -> list[str]:
        data = node.folder / "data"
        data.mkdir(exist_ok=True)
        return [
            self.binary.program,
            f"--port={address(node.host, node.ports[0])}",
            f"--access={self.access_key}",
            f"--secret={self.secret_key}",
            f"--health={_HEALTH}",
            "--keep-alive",  # As other servers do by themselves.
            *self.options,
            # ETags as attributes of the files that they are of. With --sidecar they lie in files beside them, and who reads while
            # somebody else writes may get the new ETag with the old content: a swap by it then passes, and undoes the write.
            "posix",
            str(data),
        ]

    def serves(self, node: Node) -> bool:
        return ask(node, None, _HEALTH)[0] == _OK

    def leads(self, node: Node) -> bool:
        return self.serves(node)

"""Two S3 servers as local processes: Versity's gateway, which is real, and moto's, which is at hand everywhere.

moto's keeps nothing on disk. It answers one request at a time: that a comparison and its write are one step is then certain,
as the gateway has to show. What tests ask for is ``server``, which is each of them.
"""

import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tenure.testing.engines import VersityGateway
from tenure.testing.engines.ports import claim_ports
from tenure.testing.engines.processes import Process, wait_for

_SERVER = """
import sys
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
run_simple("127.0.0.1", int(sys.argv[1]), DomainDispatcherApplication(create_backend_app), threaded=False)
"""


CREDENTIALS: dict[str, Any] = {
    "region_name": "us-east-1",
    "aws_access_key_id": "key",
    "aws_secret_access_key": "the secret of the key",
}


def connect(url: str) -> Any:
    return boto3.client("s3", **CREDENTIALS, endpoint_url=url, config=Config(retries={"total_max_attempts": 1}))


def make_gateway() -> VersityGateway:
    """A gateway that takes the credentials of ``connect``."""
    return VersityGateway(access_key=CREDENTIALS["aws_access_key_id"], secret_key=CREDENTIALS["aws_secret_access_key"])


@contextmanager
def moto(log: Path) -> Iterator[str]:
    """Run moto's server, and give its URL."""
    (claim,) = claim_ports(1, "127.0.0.1")
    process = Process([sys.executable, "-c", _SERVER, str(claim.port)], log)
    try:
        assert wait_for(lambda: process.ended or (log.exists() and b"Running on" in log.read_bytes()), 60), (
            log.read_bytes()
        )
        yield f"http://127.0.0.1:{claim.port}"
    finally:
        process.kill()
        claim.release()


@dataclass(frozen=True)
class Moto:
    """moto's server as tests see it beside a gateway."""

    url: str

    def restart(self) -> None:
        """Do nothing: it would forget everything."""


Served = VersityGateway | Moto


@pytest.fixture(scope="module", params=["moto", "versitygw"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    if request.param == "versitygw":
        with make_gateway() as gateway:
            yield gateway
    else:
        with moto(tmp_path_factory.mktemp("moto") / "log") as url:
            yield Moto(url)


@pytest.fixture
def server(served: Served) -> str:
    return served.url


@pytest.fixture
def client(server: str) -> Any:
    return connect(server)


@pytest.fixture
def bucket(client: Any) -> str:
    name = f"bucket-{uuid.uuid4()}"
    client.create_bucket(Bucket=name)
    return name

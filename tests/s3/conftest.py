"""moto's server as a local process: the only S3 server that is at hand everywhere. It keeps nothing on disk.

It answers one request at a time: that a comparison and its write are one step is then certain, as it is of a real server.
"""

import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

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


@contextmanager
def serve(log: Path) -> Iterator[str]:
    """Run the server, and give its URL."""
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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve(tmp_path_factory.mktemp("moto") / "log") as url:
        yield url


@pytest.fixture
def client(server: str) -> Any:
    return connect(server)


@pytest.fixture
def bucket(client: Any) -> str:
    name = f"bucket-{uuid.uuid4()}"
    client.create_bucket(Bucket=name)
    return name

"""Versity's gateway: an S3 server that keeps its buckets through whatever is done to its process."""

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tenure.testing.engines import VersityGateway


def test_a_server_that_was_killed_or_stopped_comes_back_with_its_buckets() -> None:
    with VersityGateway(access_key="ada", secret_key="geheim") as server:
        [node] = server.nodes
        assert server.url == f"http://127.0.0.1:{node.ports[0]}"
        assert node.ports[0] < 32768
        client = boto3.client(
            "s3",
            endpoint_url=server.url,
            region_name="us-east-1",
            aws_access_key_id="ada",
            aws_secret_access_key="geheim",
            config=Config(retries={"total_max_attempts": 1}),
        )
        client.create_bucket(Bucket="kept")
        etag = client.put_object(Bucket="kept", Key="a/b", Body=b"7")["ETag"]
        for end in (node.kill, node.stop):
            end()
            assert not server.serves(node)
            node.start()
            found = client.get_object(Bucket="kept", Key="a/b")
            assert (found["Body"].read(), found["ETag"]) == (b"7", etag)
        assert server.leader() is node


def test_a_server_that_is_paused_answers_nobody_until_it_is_resumed() -> None:
    with VersityGateway() as server:
        [node] = server.nodes
        node.pause()
        assert not server.serves(node)
        node.resume()
        assert server.serves(node)


def test_options_are_handed_to_the_server() -> None:
    with VersityGateway(options=["--readonly"]) as server:
        client = boto3.client(
            "s3",
            endpoint_url=server.url,
            region_name="us-east-1",
            aws_access_key_id=server.access_key,
            aws_secret_access_key=server.secret_key,
        )
        with pytest.raises(ClientError, match="AccessDenied"):
            client.create_bucket(Bucket="kept")

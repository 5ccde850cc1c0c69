"""The S3 sink on a server that works on many requests at once, refuses wrong keys, and is killed and frozen.

It is shown first that the server does what the sink relies on: a conditional put has one winner, and an ETag is never newer than
the content that it came with. A reader who had the new ETag with the old content could undo a write that it has not seen.
"""

import hashlib
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tenure.errors import OutcomeUnknown, Refused, StaleToken, Unreachable
from tenure.model import Token
from tenure.sinks.s3.bucket import Seen
from tenure.sinks.s3.manifest import Manifest
from tenure.testing.engines import VersityGateway
from tests.s3.conftest import CREDENTIALS, connect, make_gateway
from tests.s3.test_s3_faults import FENCE, keys, sink_of, term

CONTENDERS = 8
PADDING = b"." * 200_000  # so that a put takes a while, and half of one would be seen


@pytest.fixture(scope="module")
def gateway() -> Iterator[VersityGateway]:
    with make_gateway() as gateway:
        yield gateway


@pytest.fixture
def server(gateway: VersityGateway) -> str:
    return gateway.url


def landed(client: Any, bucket: str, key: str, body: bytes, **condition: str) -> bool:
    """Put under a condition; False: it did not hold."""
    try:
        client.put_object(Bucket=bucket, Key=key, Body=body, **condition)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] not in {409, 412}:
            raise
        return False
    return True


def test_of_many_conditional_puts_exactly_one_wins(client: Any, bucket: str) -> None:
    with ThreadPoolExecutor(CONTENDERS) as threads:
        for key in map(str, range(40)):
            condition = {"IfNoneMatch": "*"}
            for kind in ("new", "swapped"):
                bodies = [f"{kind} {key} {number}".encode() for number in range(CONTENDERS)]
                puts = [threads.submit(landed, client, bucket, key, body, **condition) for body in bodies]
                [winner] = [body for body, put in zip(bodies, puts, strict=True) if put.result()]
                found = client.get_object(Bucket=bucket, Key=key)
                assert found["Body"].read() == winner
                condition = {"IfMatch": found["ETag"]}


def test_an_etag_is_never_newer_than_the_content_that_it_came_with(server: str, client: Any, bucket: str) -> None:
    bodies = [b"%d" % number for number in range(120)]
    number_of = {f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"': int(body) for body in bodies}
    client.put_object(Bucket=bucket, Key="x", Body=bodies[0])
    is_over = threading.Event()

    def read() -> tuple[int, list[tuple[int, int]]]:
        own, count, wrong = connect(server), 0, []
        while not is_over.is_set():
            found = own.get_object(Bucket=bucket, Key="x")
            content, etag = int(found["Body"].read()), number_of[found["ETag"]]
            count += 1
            if etag > content:
                wrong.append((etag, content))
        return count, wrong

    with ThreadPoolExecutor(3) as threads:
        readers = [threads.submit(read) for _ in range(3)]
        for body in bodies[1:]:
            client.put_object(Bucket=bucket, Key="x", Body=body)
        is_over.set()
        counts = [reader.result() for reader in readers]
    assert [wrong for _, wrong in counts] == [[], [], []]
    assert all(count for count, _ in counts)


def test_of_many_who_write_at_once_nobody_undoes_the_write_of_another(server: str, bucket: str) -> None:
    def write(number: int) -> None:
        sink = sink_of(connect(server), bucket)
        for step in range(8):
            anyio.run(sink.bind(term(1)).update, "x", lambda found, line=f"{number} {step}\n": added(found, line))

    with ThreadPoolExecutor(5) as threads:
        list(threads.map(write, range(5)))
    found = anyio.run(sink_of(connect(server), bucket).get, "x")
    assert sorted(lines(found)) == sorted(f"{number} {step}" for number in range(5) for step in range(8))


def added(found: bytes | None, line: str) -> bytes:
    return (found or b"") + line.encode()


def lines(found: bytes | None) -> list[str]:
    """What was written, with nothing half."""
    assert found is None or found.endswith(b"\n"), found
    return (found or b"").decode().splitlines()


class Writer(threading.Thread):
    """Adds lines until it is refused as stale, and notes what it was told of each."""

    def __init__(self, url: str, bucket: str, token: int) -> None:
        super().__init__(daemon=True)
        self.sink, self.token = sink_of(connect(url), bucket), token
        self.told: dict[str, type[Exception] | None] = {}
        self.has_written = threading.Event()

    def run(self) -> None:
        while StaleToken not in self.told.values():
            line = f"{self.token} {uuid.uuid4()}"
            try:
                anyio.run(self.sink.bind(term(self.token)).put_all, {"padding": PADDING + line.encode() + b"\n"})
                anyio.run(
                    self.sink.bind(term(self.token)).update, "x", lambda found, line=line: added(found, f"{line}\n")
                )
            except (OutcomeUnknown, Unreachable, StaleToken) as error:
                self.told[line] = type(error)
            else:
                self.told[line] = None
                self.has_written.set()

    def lines_told(self, *kinds: type[Exception] | None) -> set[str]:
        return {line for line, told in self.told.items() if told in kinds}


def test_a_server_that_is_killed_in_the_middle_of_puts_loses_nothing_and_takes_nothing_that_is_stale(
    gateway: VersityGateway, server: str, bucket: str
) -> None:
    [node] = gateway.nodes
    reader = sink_of(connect(server), bucket)
    unsure = 0
    for token in range(1, 7):
        writers = [Writer(server, bucket, token) for _ in range(2)]
        for writer in writers:
            writer.start()
        assert all(writer.has_written.wait(60) for writer in writers)
        node.kill()
        with pytest.raises(Unreachable):
            anyio.run(reader.get, "x")
        node.start()
        anyio.run(reader.seal, FENCE, Token(token + 1))
        at_seal = lines(anyio.run(reader.get, "x"))
        for writer in writers:
            writer.join(60)
            assert not writer.is_alive()
        assert lines(anyio.run(reader.get, "x")) == at_seal
        padding = anyio.run(reader.get, "padding")
        assert padding is not None
        assert len(padding) == len(PADDING) + len(f"{token} {uuid.uuid4()}\n")
        assert len(at_seal) == len(set(at_seal))
        for writer in writers:
            assert writer.lines_told(None) <= set(at_seal)
            assert not writer.lines_told(Unreachable, StaleToken) & set(at_seal)
            unsure += len(writer.lines_told(OutcomeUnknown, Unreachable))
    assert unsure, "nobody noticed that the server was gone"


def test_a_server_that_is_frozen_in_the_middle_of_a_put_leaves_its_outcome_unknown(
    gateway: VersityGateway, server: str, bucket: str
) -> None:
    [node] = gateway.nodes
    hasty = boto3.client(
        "s3",
        **CREDENTIALS,
        endpoint_url=server,
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=3, read_timeout=3),
    )
    old, new = sink_of(hasty, bucket), sink_of(connect(server), bucket)
    anyio.run(old.bind(term(1)).put, "x", b"old")
    swapped = old.bucket.swapped

    def frozen(seen: Seen, after: Manifest, operation: str) -> bool:
        node.pause()
        return swapped(seen, after, operation)

    old.bucket.swapped = frozen  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown):
        anyio.run(old.bind(term(1)).put, "x", b"new")
    old.bucket.swapped = swapped  # type: ignore[method-assign]
    node.resume()
    anyio.run(new.seal, FENCE, Token(2))  # It is then the server that decides which of both comes first.
    found = anyio.run(new.get, "x")
    assert found in {b"old", b"new"}
    with pytest.raises(StaleToken):
        anyio.run(old.bind(term(1)).put, "x", b"stale")
    assert anyio.run(new.get, "x") == found
    anyio.run(new.bind(term(2)).put, "x", b"newer")
    assert anyio.run(new.get, "x") == b"newer"


def test_a_wrong_key_is_refused_in_one_line(server: str, client: Any, bucket: str) -> None:
    wrong = CREDENTIALS | {"aws_secret_access_key": "another secret"}
    sink = sink_of(boto3.client("s3", **wrong, endpoint_url=server), bucket)
    with pytest.raises(Refused, match="SignatureDoesNotMatch") as refused:
        anyio.run(sink.seal, FENCE, Token(1))
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert keys(client, bucket) == []

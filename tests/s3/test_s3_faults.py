"""The S3 sink: servers that ignore conditions, answers that are lost, the trap of equal ETags, and bad input."""

import json
from types import SimpleNamespace
from typing import Any

import anyio
import boto3
import pytest
from botocore.exceptions import ReadTimeoutError

from tenure.errors import ConfigError, OutcomeUnknown, Refused, StaleToken, StoreError, Unreachable, UnverifiedToken
from tenure.model import TOKEN_MAX, Token
from tenure.sinks import S3Sink
from tests.s3.conftest import CREDENTIALS, connect

FENCE = "consul://h1/books"
MANIFEST = "books/.tenure/manifest.json"


def term(token: Any) -> SimpleNamespace:
    return SimpleNamespace(fence=FENCE, token=token)


def sink_of(client: Any, bucket: str, **options: Any) -> S3Sink:
    return S3Sink(bucket, "books/", client=client, **options)


def keys(client: Any, bucket: str) -> list[str]:
    return [found["Key"] for found in client.list_objects_v2(Bucket=bucket).get("Contents", [])]


def data(client: Any, bucket: str) -> list[str]:
    return [key for key in keys(client, bucket) if "/data/" in key]


def test_a_server_honours_the_conditions_that_the_rest_relies_on(client: Any, bucket: str) -> None:
    etag = client.put_object(Bucket=bucket, Key="x", Body=b"1", IfNoneMatch="*")["ETag"]
    for condition in ({"IfNoneMatch": "*"}, {"IfMatch": '"0123"'}):
        with pytest.raises(client.exceptions.ClientError, match="PreconditionFailed"):
            client.put_object(Bucket=bucket, Key="x", Body=b"2", **condition)
    client.put_object(Bucket=bucket, Key="x", Body=b"2", IfMatch=etag)


def test_an_etag_does_not_know_metadata_so_it_cannot_carry_a_fence(client: Any, bucket: str) -> None:
    """The trap that the manifest is there for: the token in an object's metadata, compared by its ETag."""
    etag = client.put_object(Bucket=bucket, Key="x", Body=b"same", Metadata={"tenure-token": "1"})["ETag"]
    client.put_object(Bucket=bucket, Key="x", Body=b"same", Metadata={"tenure-token": "2"}, IfMatch=etag)  # the seal
    client.put_object(Bucket=bucket, Key="x", Body=b"stale", Metadata={"tenure-token": "1"}, IfMatch=etag)
    found = client.get_object(Bucket=bucket, Key="x")
    assert (found["Body"].read(), found["Metadata"]) == (b"stale", {"tenure-token": "1"})


def test_a_stale_leader_is_refused_though_the_content_came_back_to_what_it_was(client: Any, bucket: str) -> None:
    old = sink_of(client, bucket)
    anyio.run(old.bind(term(1)).put, "x", b"off")
    new = sink_of(client, bucket)
    look = old.bucket.look
    calls: list[str] = []

    def slow_look(operation: str) -> Any:
        seen = look(operation)
        if not calls:  # While the old leader is frozen between its look and its swap:
            calls.append(operation)
            anyio.run(new.bind(term(2)).put, "x", b"on")
            anyio.run(new.bind(term(2)).put, "x", b"off")
        return seen

    old.bucket.look = slow_look  # type: ignore[method-assign]
    with pytest.raises(StaleToken, match="token 1 is stale: the highest seen is 2"):
        anyio.run(old.bind(term(1)).put, "x", b"stale")
    assert anyio.run(new.get, "x") == b"off"
    assert len(data(client, bucket)) == 1, "data that never counted was left behind"


@pytest.mark.parametrize("header", ["If-Match", "If-None-Match"])
def test_a_server_that_ignores_conditions_is_found_out_before_anything_is_written(
    header: str, client: Any, bucket: str
) -> None:
    def ignored(params: Any, **_: Any) -> None:
        params["headers"].pop(header, None)

    client.meta.events.register("before-call.s3.PutObject", ignored)  # before it is signed
    sink = sink_of(client, bucket)
    with pytest.raises(Refused, match=f"this server ignores {header}, so two leaders"):
        anyio.run(sink.seal, FENCE, Token(1))
    with pytest.raises(Refused, match=f"this server ignores {header}"):
        anyio.run(sink.bind(term(1)).put, "x", b"1")
    assert keys(client, bucket) == ["books/.tenure/probe"]


class Losing:
    """Loses the answer to the N-th put of the manifest, after the server has carried it out or before it was sent."""

    def __init__(self, client: Any, *, count: int, heard: bool, deaf: bool = False) -> None:
        self.left, self.deaf = count, deaf
        moment = "after-call" if heard else "before-send"
        client.meta.events.register(f"{moment}.s3.PutObject", self.lose)
        client.meta.events.register("before-parameter-build.s3.PutObject", self.note)
        client.meta.events.register("before-send.s3.GetObject", self.look)
        self.is_manifest = False

    def note(self, params: Any, **_: Any) -> None:
        self.is_manifest = params["Key"] == MANIFEST

    def lose(self, **_: Any) -> None:
        if self.is_manifest and self.left:
            self.left -= 1
            raise ReadTimeoutError(endpoint_url="http://x")

    def look(self, **_: Any) -> None:
        if self.deaf and not self.left:
            raise ReadTimeoutError(endpoint_url="http://x")


@pytest.mark.parametrize("heard", [True, False])
def test_a_lost_answer_is_looked_up(heard: bool, server: str, bucket: str) -> None:
    client = connect(server)
    sink = sink_of(client, bucket)
    anyio.run(sink.seal, FENCE, Token(1))
    losing = Losing(client, count=1, heard=heard)
    calls = []

    def change(content: bytes | None) -> bytes:
        calls.append(content)
        return (content or b"") + b"1"

    anyio.run(sink.bind(term(1)).update, "x", change)
    assert (losing.left, calls) == (0, [None])
    assert anyio.run(sink.get, "x") == b"1"


@pytest.mark.parametrize("heard", [True, False])
def test_an_answer_that_cannot_be_looked_up_either_has_no_known_outcome(heard: bool, server: str, bucket: str) -> None:
    client = connect(server)
    sink = sink_of(client, bucket)
    anyio.run(sink.bind(term(1)).put, "x", b"old")
    Losing(client, count=1, heard=heard, deaf=True)
    with pytest.raises(OutcomeUnknown):
        anyio.run(sink.bind(term(1)).put, "x", b"new")
    found = anyio.run(sink_of(connect(server), bucket).get, "x")
    assert found == (b"new" if heard else b"old"), "its data must be there if it counts"


def test_a_client_that_repeats_what_had_no_answer_is_not_beaten_by_itself(server: str, bucket: str) -> None:
    """boto3 does so by default. The first try lands, its repeat finds something there, and that is its own."""
    client, other = boto3.client("s3", **CREDENTIALS, endpoint_url=server), connect(server)
    lost: list[str] = []

    def lose(request: Any, **_: Any) -> None:
        key = request.url.partition(f"{bucket}/")[2]
        if key.rpartition("/")[0] not in lost and "probe" not in key:
            lost.append(key.rpartition("/")[0])  # once for the data, once for the manifest
            condition = (
                {"IfNoneMatch": "*"} if "If-None-Match" in request.headers else {"IfMatch": request.headers["If-Match"]}
            )
            body = request.body if isinstance(request.body, bytes) else request.body.read()
            other.put_object(Bucket=bucket, Key=key, Body=body, **condition)
            request.reset_stream()
            raise ReadTimeoutError(endpoint_url=server)

    client.meta.events.register("before-send.s3.PutObject", lose)
    sink = sink_of(client, bucket)
    anyio.run(sink.bind(term(1)).update, "x", lambda content: (content or b"") + b"1")
    assert lost == ["books/.tenure/data", "books/.tenure"]
    assert anyio.run(sink.get, "x") == b"1"


def test_a_write_of_several_objects_is_one_step(client: Any, bucket: str) -> None:
    sink = sink_of(client, bucket)
    anyio.run(sink.bind(term(1)).put_all, {"a": b"1", "b/é": b"2", "c": b"3"})
    anyio.run(sink.bind(term(1)).put_all, {"a": b"4", "c": None, "d": None})
    assert anyio.run(sink.names) == ["a", "b/é"]
    assert [anyio.run(sink.get, name) for name in ("a", "b/é", "c")] == [b"4", b"2", None]
    anyio.run(sink.seal, FENCE, Token(2))
    with pytest.raises(StaleToken):
        anyio.run(sink.bind(term(1)).delete, "a")
    assert len(data(client, bucket)) == 2


RUBBISH = {
    "not json": b"seven",
    "empty": b"",
    "a list": b"[]",
    "negative": b'{"tenure": 1, "highest": {"%s": -5}, "objects": {}, "writes": []}' % FENCE.encode(),
    "huge": b'{"tenure": 1, "highest": {"%s": 9223372036854775808}, "objects": {}, "writes": []}' % FENCE.encode(),
    "a text": b'{"tenure": 1, "highest": {"%s": "7"}, "objects": {}, "writes": []}' % FENCE.encode(),
    "twice": b'{"tenure": 1, "highest": {"a": 1, "a": 2}, "objects": {}, "writes": []}',
    "no texts": b'{"tenure": 1, "highest": {}, "objects": {"x": 1}, "writes": []}',
}


def test_a_manifest_that_somebody_edited_is_refused_in_one_line_and_nothing_is_written(
    client: Any, bucket: str
) -> None:
    sink = sink_of(client, bucket)
    for name, text in RUBBISH.items():
        client.put_object(Bucket=bucket, Key=MANIFEST, Body=text)
        for call, argument in ((sink.seal, (FENCE, Token(7))), (sink.bind(term(7)).put, ("x", b"x"))):
            with pytest.raises(Refused, match=r"manifest\.json was edited") as refused:
                anyio.run(call, *argument)
            assert "\n" not in str(refused.value), name
        assert client.get_object(Bucket=bucket, Key=MANIFEST)["Body"].read() == text
    assert keys(client, bucket) == [MANIFEST]


def test_bad_input_is_one_clear_error(client: Any, bucket: str, server: str) -> None:
    sink = sink_of(client, bucket)
    for token in (0, -1, TOKEN_MAX + 1):
        with pytest.raises(ConfigError, match="token"):
            anyio.run(sink.seal, FENCE, Token(token))
        with pytest.raises(ConfigError, match="token"):
            anyio.run(sink.bind(term(token)).put, "x", b"x")
    for name in ("", "x" * 600):
        with pytest.raises(ConfigError, match="name"):
            anyio.run(sink.bind(term(1)).put, name, b"x")
    with pytest.raises(ConfigError, match="must end with a slash"):
        S3Sink(bucket, "books")
    with pytest.raises(ConfigError, match="bucket"):
        S3Sink("")
    with pytest.raises(Refused, match="NoSuchBucket"):
        anyio.run(sink_of(client, "no-such-bucket").seal, FENCE, Token(1))
    with pytest.raises(Unreachable) as unreachable:
        anyio.run(sink_of(connect("http://127.0.0.1:9"), bucket).seal, FENCE, Token(1))
    assert "the secret" not in str(unreachable.value)
    assert keys(client, bucket) == []
    assert server


def test_rights_that_are_missing_are_refused(client: Any, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    with pytest.raises(StoreError, match="Unable to locate credentials"):
        anyio.run(S3Sink(bucket, endpoint_url=client.meta.endpoint_url).seal, FENCE, Token(1))
    assert keys(client, bucket) == []


def test_a_forged_token_is_refused_and_counted(client: Any, bucket: str) -> None:
    sink = sink_of(client, bucket, verify=lambda _, token: token <= 9)
    anyio.run(sink.seal, FENCE, Token(9))
    with pytest.raises(UnverifiedToken):
        anyio.run(sink.seal, FENCE, Token(2**62))
    with pytest.raises(UnverifiedToken):
        anyio.run(sink.bind(term(2**62)).put, "x", b"forged")
    with pytest.raises(StaleToken):
        anyio.run(sink.bind(term(8)).put, "x", b"stale")
    assert (sink.refused.unverified, sink.refused.stale) == (2, 1)
    anyio.run(sink.bind(term(9)).put, "x", b"fine")
    manifest = json.loads(client.get_object(Bucket=bucket, Key=MANIFEST)["Body"].read())
    assert manifest["highest"] == {FENCE: 9}
    assert len(data(client, bucket)) == 1

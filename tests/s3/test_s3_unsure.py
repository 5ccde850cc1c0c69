"""Swaps of which nobody can say whether they landed: their data must stay, and nothing may be told as certain."""

import threading
from collections.abc import Callable
from typing import Any

import anyio
import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from tenure.errors import OutcomeUnknown, Unreachable
from tenure.model import Token
from tenure.sinks import S3Sink
from tests.s3.conftest import CREDENTIALS, connect
from tests.s3.test_s3_faults import FENCE, MANIFEST, data, sink_of, term

EXPIRED = ClientError(
    {"Error": {"Code": "ExpiredToken", "Message": "expired"}, "ResponseMetadata": {"HTTPStatusCode": 400}}, "GetObject"
)
LOST = ReadTimeoutError(endpoint_url="http://x")
GONE = EndpointConnectionError(endpoint_url="http://x")


class Unsure:
    """A client that hands each put of the manifest to ``on_put``, and each look at it afterwards to ``on_look``."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.on_put: Callable[[int, dict[str, Any]], Any] | None = None
        self.on_look: Callable[[], None] | None = None
        self.puts = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def put_object(self, **options: Any) -> Any:
        if self.on_put is None or options["Key"] != MANIFEST:
            return self._client.put_object(**options)
        self.puts += 1
        return self.on_put(self.puts, options)

    def get_object(self, **options: Any) -> Any:
        if self.on_look is not None and self.puts and options["Key"] == MANIFEST:
            self.on_look()
        return self._client.get_object(**options)


@pytest.fixture
def unsure(client: Any, bucket: str) -> Unsure:
    anyio.run(sink_of(client, bucket).bind(term(1)).put, "x", b"old")
    return Unsure(client)


def elsewhere(work: Callable[..., Any], *args: Any) -> None:
    """Do something as somebody else would, while a call of the sink is under way."""
    thread = threading.Thread(target=anyio.run, args=(work, *args))
    thread.start()
    thread.join()


async def many(sink: S3Sink, token: int, *, replaces: bool) -> None:
    if replaces:
        await sink.bind(term(token)).put("x", b"by another")
    else:
        await sink.seal(FENCE, Token(token))
    for number in range(66):  # More than a manifest remembers.
        await sink.bind(term(token)).put("y", b"%d" % number)


@pytest.mark.parametrize("replaces", [False, True], ids=["succeeded", "replaced"])
def test_a_swap_that_was_forgotten_since_has_no_known_outcome(
    replaces: bool, unsure: Unsure, client: Any, bucket: str
) -> None:
    def on_put(number: int, options: dict[str, Any]) -> None:
        client.put_object(**options)
        if number == 1:
            elsewhere(lambda: many(sink_of(client, bucket), 1 if replaces else 2, replaces=replaces))
            raise LOST

    unsure.on_put = on_put
    with pytest.raises(OutcomeUnknown):
        anyio.run(sink_of(unsure, bucket).bind(term(1)).put, "x", b"new")
    assert anyio.run(sink_of(client, bucket).get, "x") == (b"by another" if replaces else b"new")


def test_a_repeat_that_was_beaten_by_itself_and_cannot_look_has_no_known_outcome(
    unsure: Unsure, client: Any, bucket: str
) -> None:
    def on_put(_: int, options: dict[str, Any]) -> None:
        client.put_object(**options)
        client.put_object(**options)  # 412

    def on_look() -> None:
        raise GONE

    unsure.on_put, unsure.on_look = on_put, on_look
    with pytest.raises(OutcomeUnknown):
        anyio.run(sink_of(unsure, bucket).bind(term(1)).put, "x", b"new")
    assert anyio.run(sink_of(client, bucket).get, "x") == b"new"


def test_rights_that_end_before_the_look_leave_no_known_outcome(unsure: Unsure, client: Any, bucket: str) -> None:
    def on_put(_: int, options: dict[str, Any]) -> None:
        client.put_object(**options)
        raise LOST

    def on_look() -> None:
        raise EXPIRED

    unsure.on_put, unsure.on_look = on_put, on_look
    with pytest.raises(OutcomeUnknown):
        anyio.run(sink_of(unsure, bucket).bind(term(1)).put, "x", b"new")
    assert anyio.run(sink_of(client, bucket).get, "x") == b"new"


def test_a_put_that_is_still_on_its_way_is_not_forgotten_for_one_that_was_not_sent(
    unsure: Unsure, client: Any, bucket: str
) -> None:
    late: list[dict[str, Any]] = []

    def on_put(number: int, options: dict[str, Any]) -> None:
        late.append(options)
        raise LOST if number == 1 else GONE

    unsure.on_put = on_put
    with pytest.raises(OutcomeUnknown):
        anyio.run(sink_of(unsure, bucket).bind(term(1)).put, "x", b"new")
    client.put_object(**late[0])
    assert anyio.run(sink_of(client, bucket).get, "x") == b"new"


def test_a_client_that_repeats_and_cannot_connect_any_more_is_no_proof(server: str, bucket: str) -> None:
    """Its first try may be on its way; it tells of the last one only."""
    client, other = boto3.client("s3", **CREDENTIALS, endpoint_url=server), connect(server)
    anyio.run(sink_of(other, bucket).bind(term(1)).put, "x", b"old")
    late: list[dict[str, Any]] = []

    def on_put(_: int, options: dict[str, Any]) -> None:
        late.append(options)
        raise GONE

    unsure = Unsure(client)
    unsure.on_put = on_put
    with pytest.raises(OutcomeUnknown):
        anyio.run(sink_of(unsure, bucket).bind(term(1)).put, "x", b"new")
    other.put_object(**late[0])
    assert anyio.run(sink_of(other, bucket).get, "x") == b"new"


def test_a_client_that_sends_once_and_cannot_connect_leaves_nothing(unsure: Unsure, client: Any, bucket: str) -> None:
    def on_put(*_: object) -> None:
        raise GONE

    unsure.on_put = on_put
    with pytest.raises(Unreachable):
        anyio.run(sink_of(unsure, bucket).bind(term(1)).put, "x", b"new")
    assert len(data(client, bucket)) == 1
    assert anyio.run(sink_of(client, bucket).get, "x") == b"old"

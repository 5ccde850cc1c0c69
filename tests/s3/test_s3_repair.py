"""A fence of a prefix is lowered by one conditional put of its manifest, which has the record in it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tenure.errors import ConfigError, Refused
from tenure.model import Token
from tenure.sinks import Bound, S3Sink, Verify
from tests.s3.conftest import CREDENTIALS
from tests.sinks.repairs import POISON, WHY, Place, check_command, check_repair, refused_in_one_line


async def write(sink: Any, term: Bound) -> None:
    await sink.bind(term).put("book", str(term.token).encode())


@pytest.fixture
def place(server: str, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A prefix, and an environment in which boto3 finds the server and its credentials."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_DEFAULT_REGION", CREDENTIALS["region_name"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", CREDENTIALS["aws_access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CREDENTIALS["aws_secret_access_key"])

    @asynccontextmanager
    async def opened(verify: Verify | None = None) -> AsyncIterator[S3Sink]:
        yield S3Sink(bucket, "the books/", verify=verify)

    return Place(f"s3://{bucket}/the books/", "repair", opened, write)


def test_a_fence_is_lowered_in_one_step(place: Place) -> None:
    asyncio.run(check_repair(place))


def test_by_the_command_line(place: Place) -> None:
    check_command(place, secret=CREDENTIALS["aws_secret_access_key"])


def test_the_record_stays_when_others_write(place: Place) -> None:
    async def run() -> None:
        async with place.open() as sink:
            await sink.seal(place.fence, Token(POISON))
            repair = await place.lower(POISON, 7)
            for token in (7, 8, 9):
                await place.written(sink, token)
            await sink.bind(place.term(9)).delete("book")
            assert await place.look() == ({place.fence: 9}, (repair,))

    asyncio.run(run())


def test_of_many_at_once_one_does_it_though_others_write(place: Place) -> None:
    async def run() -> None:
        async with place.open() as sink:
            await sink.seal(place.fence, Token(POISON))
            calls = (place.lower(POISON, 7 + n) for n in range(4))
            writes = (sink.bind(place._replace(fence="other").term(1)).put(f"{n}", b"x") for n in range(4))
            lowered = await asyncio.gather(*calls, *writes, return_exceptions=True)
            done = [one for one in lowered[:4] if not isinstance(one, BaseException)]
            assert lowered[4:] == [None] * 4
            assert len(done) == 1
            assert all(isinstance(one, ConfigError) for one in lowered[:4] if one is not done[0]), lowered
            assert await place.look() == ({place.fence: done[0].now}, (done[0],))
            assert await sink.names() == ["0", "1", "2", "3"]

    asyncio.run(run())


@pytest.mark.parametrize(
    "repairs",
    ['{"fence": 1}', '[{"fence": "f"}]', '[{"fence": 1, "was": 2, "now": 1, "who": "", "when": "", "why": ""}]'],
)
def test_a_record_that_somebody_edited_is_refused(repairs: str, place: Place, client: Any, bucket: str) -> None:
    text = f'{{"tenure": 1, "highest": {{"repair": 9}}, "objects": {{}}, "writes": [], "repairs": {repairs}}}'
    client.put_object(Bucket=bucket, Key="the books/.tenure/manifest.json", Body=text.encode())
    with pytest.raises(Refused, match=r'manifest.json was edited: its "repairs"'):
        asyncio.run(place.lower(9, 7))


def test_what_cannot_be_asked_is_told_in_one_line(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    lower = ("books", "--was", "9", "--to", "7", "--why", WHY)
    assert "has no fences" in refused_in_one_line(2, "show", place.target)
    assert "which is 0" in refused_in_one_line(2, "lower", place.target, *lower)
    for target in ("s3://", "s3://bucket/books", "s3://key:geheim@bucket/books/"):
        assert "must be s3://bucket/prefix/" in refused_in_one_line(2, "show", target, secret="geheim")
    assert "NoSuchBucket" in refused_in_one_line(69, "show", "s3://no-such-bucket-here/books/")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert "was not sent" in refused_in_one_line(69, "lower", place.target, *lower)

"""Places that hold no elections: what zombies write to besides engines."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tenure.sinks import S3Sink, SQLiteMark
from tenure.testing.engines import installed
from tenure.web import FencedWSGI, Guard, Route
from tests.s3 import conftest as s3
from tests.web.serving import wsgi


class InFiles:
    store = ""

    def __init__(self, folder: Path) -> None:
        self.folder, self.target = folder, str(folder)
        folder.mkdir()

    def prepare(self, election: str) -> None:
        pass

    def blocked(self) -> bool:
        return False  # Who holds the lock is writing, and says so.

    def written(self, election: str) -> list[int]:
        return [int(token) for token in (self.folder / election).read_text().split()]


class InS3:
    store = ""

    def __init__(self, url: str, served_by: str) -> None:
        self.target, self.served_by = url, served_by
        self.client = s3.connect(url)
        self.client.create_bucket(Bucket="written")

    def prepare(self, election: str) -> None:
        pass

    def blocked(self) -> bool:
        return False

    def written(self, election: str) -> list[int]:
        # What is fenced does not lie under its own name: which data counts, only the sink can say.
        sink = S3Sink("written", client=self.client)
        text = asyncio.run(sink.get(election)) if election.startswith("fenced") else None
        if text is None:
            text = self.client.get_object(Bucket="written", Key=election)["Body"].read()
        return [int(token) for token in text.split()]


class InHttp:
    store = ""

    def __init__(self) -> None:
        self.target, self.heard = "", dict[str, list[int]]()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        """The service behind the guard."""
        _, _, election, token = environ["PATH_INFO"].split("/")
        self.heard.setdefault(election, []).append(int(token))
        start_response("200 OK", [("Content-Length", "0")])
        return []

    def prepare(self, election: str) -> None:
        pass

    def blocked(self) -> bool:
        return False

    def written(self, election: str) -> list[int]:
        return self.heard[election]


@contextmanager
def files(folder: Path, _: int) -> Iterator[InFiles]:
    yield InFiles(folder / "files")


@contextmanager
def objects(folder: Path, _: int) -> Iterator[InS3]:
    """A real server if one is built here, or else moto's, and the table says so."""
    with ExitStack() as stack:
        if installed("versitygw"):
            gateway = stack.enter_context(s3.make_gateway())
            yield InS3(gateway.url, str(gateway.binary))
        else:
            yield InS3(stack.enter_context(s3.moto(folder / "s3.log")), "moto, which is no real server")


@contextmanager
def http(folder: Path, _: int) -> Iterator[InHttp]:
    place = InHttp()
    guard = Guard([Route("/fenced", lambda _: True)], SQLiteMark(folder / "mark.db"))
    with wsgi(FencedWSGI(place, guard)) as url:
        place.target = url
        yield place

"""A service and a folder as sinks of a real election: sealed before the body starts, and closed to whoever led before."""

from pathlib import Path

import anyio
import httpx
import pytest

from tenure import Election, StaleToken, Tenure, TenureOver, open_store
from tenure.sinks import FileSink, HttpSink, MemoryMark
from tenure.sinks.http import fence_httpx
from tenure.web import FencedASGI, Guard, Route
from tests.web.service import Service
from tests.web.serving import asgi


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_next_leader_seals_what_the_last_one_wrote_to(backend: str, tmp_path: Path) -> None:
    guard = Guard([Route("/", lambda _: True)], MemoryMark(), secrets=["sixteen bytes at least"])
    terms: list[Tenure] = []

    async def run(url: str) -> None:
        service, files = HttpSink(url, secret="sixteen bytes at least"), FileSink(tmp_path)

        async def body(term: Tenure) -> None:
            terms.append(term)
            answer = await service.bind(term).request("POST", "/entries")
            assert answer.body == str(term.token).encode()
            await files.bind(term).write_text("leader", str(term.token))

        async with open_store("memory://") as store:
            for _ in range(2):
                await Election(store, "books").lead(body, sinks=[service, files], once=True)
        old, new = terms
        assert new.token > old.token
        with pytest.raises(TenureOver):  # Known before anything is sent.
            await service.bind(old).request("POST", "/entries")
        async with httpx.AsyncClient() as client:
            fence_httpx(client, old, url)
            with pytest.raises(TenureOver):
                await client.post(f"{url}/entries")
        with pytest.raises(StaleToken):  # One that does not look at its clock is refused all the same.
            await files.bind(old).write_text("leader", "stale")
        assert (tmp_path / "leader").read_text() == str(new.token)

    served = Service()
    with asgi(FencedASGI(served.asgi, guard)) as url:
        anyio.run(run, url, backend=backend)
    assert served.calls == ["/entries", "/entries"]

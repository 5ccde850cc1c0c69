"""One table routes, checks and describes: names with slashes, and a document that is valid and says what there is."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest
from openapi_spec_validator import validate

from tenure.model import Holder
from tenure.serve.answers import Fault
from tenure.serve.api import ROUTES, TABLE
from tenure.serve.openapi import document_of
from tenure.serve.routes import Access
from tenure.stores.base import ElectionStatus
from tenure.stores.memory import MemoryEngine
from tests.serve.inside import BEARER, CountingStore, inside


@pytest.mark.parametrize(
    ("method", "path", "name", "found"),
    [
        ("GET", "/leader/jobs", "leader", {"election": "jobs"}),
        ("HEAD", "/leader/jobs", "leader", {"election": "jobs"}),
        ("GET", "/leader/billing/close", "leader", {"election": "billing/close"}),
        ("GET", "/leader/billing%2Fclose", "leader", {"election": "billing/close"}),
        ("GET", "/leader/caf%C3%A9", "leader", {"election": "café"}),
        ("GET", "/v1/elections/billing/close", "election", {"election": "billing/close"}),
        ("GET", "/v1/elections/billing/close/history", "history", {"election": "billing/close"}),
        ("GET", "/v1/elections/billing%2Fhistory", "election", {"election": "billing/history"}),
        ("POST", "/v1/elections/a/b/candidacies", "stand", {"election": "a/b"}),
        ("POST", "/v1/elections/a/resign/resign", "ask_to_resign", {"election": "a/resign"}),
        ("POST", "/v1/locks/a/b", "lock", {"lock": "a/b"}),
        ("DELETE", "/v1/locks/x", "unlock", {"lock": "x"}),
        ("GET", "/v1/candidacies/x/stream", "stream", {"id": "x"}),
        ("GET", "/", "page", {}),
    ],
)
def test_names_may_have_slashes_in_them(method: str, path: str, name: str, found: dict[str, str]) -> None:
    route, said = TABLE.find(method, path)
    assert (route.name, said) == (name, found)


@pytest.mark.parametrize(
    "path", ["/leader", "/leader/", "/v1/elections/", "/v1//elections", "/v1/candidacies/a/b", "x", ""]
)
def test_what_is_no_path_is_not_found(path: str) -> None:
    with pytest.raises(Fault, match="404"):
        TABLE.find("GET", path)


def test_a_stream_is_not_asked_for_by_head_which_would_have_no_end_but_that_of_a_candidacy() -> None:
    async def main() -> None:
        async with inside() as there, asyncio.timeout(10):
            held = await there.wait((await there.stand("jobs", ttl_s=60, keep_s=60))["id"])
            for path in ("/v1/events", f"/v1/candidacies/{held['id']}/stream"):
                answer = await there.client.head(path, headers=BEARER)
                assert (answer.status_code, answer.headers["allow"], answer.content) == (405, "GET", b"")
            assert (await there.client.head("/leader/jobs")).status_code == 200

    asyncio.run(main())


def test_the_document_is_valid_and_describes_every_route_with_who_may_ask() -> None:
    document = document_of(ROUTES)
    validate(document)
    described = {
        operation["operationId"]: operation for path in document["paths"].values() for operation in path.values()
    }
    for route in ROUTES:
        operation = described[route.name]
        assert ("security" in operation) == (route.access is Access.TOKEN), route.name
        assert ("requestBody" in operation) == (route.body is not None), route.name
        assert operation["summary"], route.name


def test_everything_that_changes_something_needs_the_token() -> None:
    harmless = {"check"}  # It asks, by a body.
    writes = {route.name for route in ROUTES if route.method != "GET"} - harmless
    assert {route.name for route in ROUTES if route.access is Access.TOKEN} == writes | {"look", "stream"}


def test_the_sidecar_serves_its_document_its_metrics_and_the_page() -> None:
    async def main() -> None:
        async with inside() as there:
            await there.look()
            document = (await there.client.get("/openapi.json")).json()
            validate(document)
            metrics = await there.client.get("/metrics")
            assert metrics.headers["content-type"].startswith("text/plain")
            assert "# TYPE tenure_leader gauge" in metrics.text
            page = await there.client.get("/")
            assert page.headers["content-type"].startswith("text/html")
            assert "default-src 'none'" in page.headers["content-security-policy"]
            assert (await there.client.get("/assets/none.css")).status_code == 404
            assert (await there.client.get("/assets/%2e%2e")).status_code == 404
            board = await there.client.get("/v1/board")
            assert board.headers["tenure-event-id"] == there.sidecar.hub.last_id

    asyncio.run(main())


class Queued(CountingStore):
    """A store that says who waits, and in which order."""

    queue: tuple[Holder, ...] = ()

    async def elections(self) -> list[ElectionStatus]:
        return [replace(one, standbys=self.queue) for one in await super().elections()]


def test_a_scrape_of_the_sidecar_says_who_leads_by_what_happens_here_and_who_waits_by_what_the_store_shows() -> None:
    async def main() -> None:
        store = Queued(MemoryEngine())
        async with inside(store) as there:
            leads = await there.stand("jobs", ttl_s=60, keep_s=60)
            await there.wait(leads["id"])
            waits = await there.stand("jobs", ttl_s=60, keep_s=60)
            store.queue = Holder("elsewhere", 1, "n"), there.sidecar.register.get(str(waits["id"])).standing.holder
            await there.look()
            of = f'{{election="jobs",store="{store.address}"}}'
            wanted = {
                f"tenure_leader{of} 1.0",
                f"tenure_leaders_seen{of} 1.0",
                f"tenure_standbys{of} 2.0",
                f"tenure_queue_position{of} 2.0",
            }
            missing = wanted
            with suppress(TimeoutError):
                async with asyncio.timeout(5):
                    while missing:  # Facts are told on a thread of their own.
                        await asyncio.sleep(0.01)
                        missing = wanted.difference((await there.client.get("/metrics")).text.splitlines())
            assert missing == set()

    asyncio.run(main())

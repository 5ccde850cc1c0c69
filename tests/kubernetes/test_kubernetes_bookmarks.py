"""What an API server says while nothing happens: bookmarks, by which a watch that breaks goes on; or nothing, and then it is left."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from tenure.clients.kubernetes.watch import Watch
from tenure.stores.kubernetes import KubernetesStore, from_url
from tenure.testing.engines import KubernetesCluster
from tests.kubernetes.kubernetes_rig import LEASES, bid, operator, takes_over, until, waits, wins
from tests.kubernetes.stub import Stub, status, stub

pytestmark = pytest.mark.anyio

LONG_NS = 600 * 10**9  # far more than any test waits: whoever only goes by the clock fails
MARKED = 150


def held(identity: str) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"holderIdentity": identity, "leaseDurationSeconds": 600, "leaseTransitions": 1}}


def bookmark(version: int) -> bytes:
    thing = {"kind": "Lease", "metadata": {"resourceVersion": str(version)}}
    return json.dumps({"type": "BOOKMARK", "object": thing}).encode() + b"\n"


async def test_a_watch_that_ends_goes_on_from_its_last_bookmark_where_all_before_is_forgotten() -> None:
    begun_from: list[str] = []
    lists: list[str] = []

    async def watch(request: web.Request) -> web.StreamResponse | None:
        begun_from.append(request.query["resourceVersion"])
        if len(begun_from) > 1:
            # It remembers what came after the bookmark, and nothing before.
            return status(410) if int(begun_from[-1]) < MARKED else None
        response = web.StreamResponse()
        await response.prepare(request)
        if request.query.get("allowWatchBookmarks") == "true":
            await response.write(bookmark(MARKED))
        return response

    async def answer(request: web.Request) -> None:
        if "limit" in request.query:
            lists.append(request.path)

    async with stub() as api, KubernetesStore(api.settings()) as store:
        api.watch, api.answer = watch, answer
        api.write("marked", held("go-a"))
        wait = await waits(store, bid("marked", ttl_ns=LONG_NS))
        standby = asyncio.create_task(takes_over(store, wait))
        api.version = MARKED

        async def goes_on() -> bool:
            return len(begun_from) > 1

        await until(goes_on)
        api.write("marked", held(""))
        assert (await standby).token == 2
    assert begun_from == ["101", str(MARKED)]
    assert len(lists) == 1  # Nobody had to look anew.


async def watched_for(api: Stub, heard: list[str], anew: list[None], idle_s: float) -> None:
    """Listen until the stub has had two watches and has told of a Lease called ``last``."""
    async with api.client() as client:
        watch = Watch(
            client,
            LEASES,
            lambda what, thing: heard.append(f"{what} {thing['metadata'].get('name')}"),
            lambda: anew.append(None),
            idle_s=idle_s,
        )
        try:
            await watch.begin()

            async def told() -> bool:
                return "MODIFIED last" in heard

            await until(told)
        finally:
            await watch.end()


async def test_a_watch_on_which_nothing_comes_is_given_up_and_goes_on_from_what_was_heard_last() -> None:
    begun_from: list[str] = []
    heard: list[str] = []
    anew: list[None] = []

    async def watch(request: web.Request) -> web.StreamResponse | None:
        begun_from.append(request.query["resourceVersion"])
        if len(begun_from) == 2:
            api.write("last", held(""))
        if len(begun_from) > 1:
            return None
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(bookmark(MARKED))
        await asyncio.Event().wait()  # as one behind a network that has lost the connection, and tells nobody
        return response

    async with stub() as api:
        api.watch, api.version = watch, MARKED
        await watched_for(api, heard, anew, idle_s=1)
    assert begun_from[:2] == [str(MARKED), str(MARKED)]
    assert heard == ["MODIFIED last"]  # A bookmark is no event.
    assert len(anew) == 1


async def test_an_api_server_sends_the_bookmarks_that_it_is_asked_for(cluster: KubernetesCluster) -> None:
    async with operator(cluster.url) as by_hand, from_url(cluster.url) as store:
        grant = await wins(store, bid("bookmarked", ttl_ns=LONG_NS))
        listed = await by_hand.client.get(LEASES, operation="list")
        said: list[dict[str, Any]] = []
        async with by_hand.client.stream(
            LEASES,
            operation="watch",
            idle_s=60,
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=listed["metadata"]["resourceVersion"],
            timeoutSeconds="8",
        ) as lines:
            await store.renew(grant)  # A bookmark tells of a version later than that of the beginning, or not at all.
            said.extend([json.loads(line) async for line in lines])
    marks = [event["object"]["metadata"]["resourceVersion"] for event in said if event["type"] == "BOOKMARK"]
    assert marks
    assert int(marks[-1]) > int(listed["metadata"]["resourceVersion"])

"""Answers that come late, versions that go back, watches that miss things: what a store makes of them."""

import asyncio
import logging
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web

from tenure.stores.kubernetes import KubernetesStore
from tests.kubernetes.kubernetes_rig import bid, takes_over, until, waits, wins
from tests.kubernetes.stub import Stub, status, stub

pytestmark = pytest.mark.anyio

LONG_NS = 600 * 10**9  # far more than any test waits: whoever only goes by the clock fails


def held(identity: str, transitions: int = 1) -> dict[str, Any]:
    spec = {"holderIdentity": identity, "leaseDurationSeconds": 600, "leaseTransitions": transitions}
    return {"metadata": {}, "spec": spec if identity else spec | {"holderIdentity": ""}}


async def standing_by(store: KubernetesStore, api: Stub, name: str) -> "asyncio.Task[Any]":
    """One who waits for a stranger to leave, and hears what happens."""
    wait = await waits(store, bid(name, ttl_ns=LONG_NS))
    standby = asyncio.create_task(takes_over(store, wait))

    async def is_watched() -> bool:
        return "WATCH" in api.requests

    await until(is_watched)
    return standby


async def test_who_waits_looks_for_itself_when_the_api_server_has_forgotten_what_happened() -> None:
    async with stub() as api, KubernetesStore(api.settings()) as store:
        api.write("gone", held("go-a"))
        standby = await standing_by(store, api, "gone")
        api.version += 1
        api.leases["gone"] = held("") | {"metadata": {"name": "gone", "resourceVersion": str(api.version)}}
        api.tell({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}})
        assert (await standby).token == 2


async def test_a_backup_that_is_put_back_shuts_nobody_out_and_what_happens_then_is_heard() -> None:
    async with stub() as api, KubernetesStore(api.settings()) as store:
        api.write("other", held("go-a"))
        api.write("restored", held(""))
        grant = await wins(store, bid("restored", ttl_ns=LONG_NS))
        await store.release(grant.bid)
        standby = await standing_by(store, api, "other")
        api.version = 20
        api.events.clear()
        for name, identity in (("other", "go-a"), ("restored", "")):
            api.write(name, held(identity))
        again = await wins(store, bid("restored", ttl_ns=LONG_NS))
        assert again.token == grant.token + 1

        async def watched_anew() -> bool:
            return api.requests.count("WATCH") == 2

        await until(watched_anew)
        api.write("other", held(""))
        assert (await standby).token == 2


async def test_an_answer_that_comes_late_deposes_nobody_who_was_elected_meanwhile() -> None:
    held_back, asked = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse | None:
        if request.method == "GET" and request.path.endswith("/late") and not asked.is_set():
            asked.set()
            await held_back.wait()
            return status(404)
        return None

    async with stub() as api, KubernetesStore(api.settings(timeout_s=60)) as store:
        api.answer = answer
        reading = asyncio.create_task(store.read("late"))
        await asked.wait()
        grant = await wins(store, bid("late", ttl_ns=LONG_NS))
        held_back.set()
        await reading
        assert await store.renew(grant) == grant
        await store.release(grant.bid)
        assert "holderIdentity" not in api.leases["late"]["spec"]


async def test_what_is_remembered_deposes_nobody() -> None:
    async with stub() as api, KubernetesStore(api.settings()) as store:
        grant = await wins(store, bid("kept", ttl_ns=LONG_NS))
        mine = api.leases["kept"]

        def forget() -> None:
            """As after an API server that said for a moment that there is no Lease."""
            store._seen.see("kept", None, store._seen.mark("kept"))

        forget()
        assert await store.renew(grant) == grant
        forget()
        assert await store.proclaim(grant, "http://here") == grant
        forget()
        await store.release(grant.bid)
        assert mine["spec"]["holderIdentity"].endswith("#1")
        assert "holderIdentity" not in api.leases["kept"]["spec"]


@pytest.mark.parametrize("how", ["ends", "is gone"])
async def test_a_watch_that_never_lasts_is_begun_ever_more_slowly(how: str) -> None:
    begun_at_s: list[float] = []

    async def watch(request: web.Request) -> web.StreamResponse:
        begun_at_s.append(asyncio.get_running_loop().time())
        if how == "is gone" and len(begun_at_s) > 1:
            return status(410)
        response = web.StreamResponse()
        await response.prepare(request)
        return response

    async with stub() as api, KubernetesStore(api.settings()) as store:
        api.watch = watch
        await wins(store, bid("slowly", ttl_ns=LONG_NS))

        async def five_have_begun() -> bool:
            return len(begun_at_s) >= 5

        await until(five_have_begun)
    pauses_s = [after - before for before, after in pairwise(begun_at_s)]
    assert pauses_s[0] >= 0.1
    assert pauses_s[3] >= 0.8


async def test_a_watch_that_is_refused_time_after_time_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async def first_watch_ends(request: web.Request) -> web.StreamResponse:
        api.watch = refused
        response = web.StreamResponse()
        await response.prepare(request)
        return response

    async def refused(_: web.Request) -> web.StreamResponse:
        return status(403)

    async with stub() as api, KubernetesStore(api.settings()) as store:
        api.watch = first_watch_ends
        with caplog.at_level(logging.WARNING, "tenure"):
            await wins(store, bid("deaf", ttl_ns=LONG_NS))

            async def refused_often() -> bool:
                return api.requests.count("WATCH") >= 6

            await until(refused_often)
    told = [record.getMessage() for record in caplog.records if "the watch fails" in record.getMessage()]
    assert len(told) == 1
    assert "code 403" in told[0]


async def test_an_event_that_is_nonsense_ends_no_watch() -> None:
    async with stub() as api, KubernetesStore(api.settings()) as store:
        api.write("heard", held("go-a"))
        standby = await standing_by(store, api, "heard")
        nonsense: list[object] = [{"metadata": None}, {"metadata": 5}, {}, [], 7, None]
        for thing in nonsense:
            api.version += 1
            api.tell({"type": "MODIFIED", "object": thing})
        api.write("heard", held(""))
        assert (await standby).token == 2
        assert api.requests.count("WATCH") == 1

"""How an API server is asked that is busy, has forgotten who we are, or is hidden behind a plugin that takes its time."""

import asyncio
import fcntl
import sys
import time
from pathlib import Path

import pytest
from aiohttp import web

from tenure.clients.kubernetes.client import AT_ONCE
from tenure.clients.kubernetes.credentials import Plugin, TokenFile
from tenure.errors import ConfigError, Refused, StoreError, Unreachable
from tests.kubernetes.kubernetes_rig import LEASES, LIMIT_S
from tests.kubernetes.stub import status, stub

pytestmark = pytest.mark.anyio


async def test_a_busy_api_server_is_asked_again_after_the_time_that_it_names() -> None:
    asked_at_s: list[float] = []

    async def answer(_: web.Request) -> web.StreamResponse | None:
        asked_at_s.append(time.monotonic())
        return status(429, **{"Retry-After": "1"}) if len(asked_at_s) < 3 else None

    async with stub() as api, api.client() as client:
        api.answer = answer
        assert await client.get(LEASES, operation="look")
    assert len(asked_at_s) == 3
    assert asked_at_s[1] - asked_at_s[0] >= 1
    assert asked_at_s[2] - asked_at_s[1] >= 1


async def test_one_that_is_busy_for_longer_than_a_request_may_take_has_refused_it() -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return status(429, **{"Retry-After": "30"})

    async with stub() as api, api.client() as client:
        api.answer = answer
        with pytest.raises(Refused, match="it has too much to do"):
            await client.get(LEASES, operation="look")
        assert len(api.requests) == 1


@pytest.mark.parametrize("after", ["0", "-1", "0.000001", "nan", "soon"])
async def test_one_that_names_no_time_is_not_asked_in_a_loop(after: str) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return status(429, **{"Retry-After": after})

    async with stub() as api, api.client(timeout_s=1) as client:
        api.answer = answer
        with pytest.raises(StoreError):  # Refused; or unknown, if the last answer came too late.
            await client.get(LEASES, operation="look")
        assert len(api.requests) <= 11


async def test_all_requests_that_were_under_way_with_an_old_token_pass_with_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    all_are_there = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse | None:
        if request.headers["Authorization"] == "Bearer new":
            return None
        if len(api.requests) == AT_ONCE:
            all_are_there.set()
        await all_are_there.wait()
        return status(401)

    async with stub() as api, api.client(TokenFile(file), timeout_s=LIMIT_S) as client:
        api.answer = answer
        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(client.get(LEASES, operation="look"))
            await all_are_there.wait()
            file.write_text("new")
        assert len(api.requests) == 2 * AT_ONCE


def test_a_token_that_was_read_is_kept_while_its_file_cannot_be_read(tmp_path: Path) -> None:
    async def story() -> None:
        token = tmp_path / "token"
        token.write_text("first")
        credentials = TokenFile(token)
        first = await credentials.headers()
        for content in (None, "", "two\nlines"):
            token.unlink(missing_ok=True)
            if content is not None:
                token.write_text(content)
            credentials._read_at_s -= 3600  # an hour ago
            assert await credentials.headers() == first
            with pytest.raises(ConfigError):
                await credentials.renew(first)
        token.write_text("second")
        assert await credentials.headers() == {"Authorization": "Bearer second"}

    asyncio.run(story())


# It has a child that outlives it and keeps whatever it was given; both hold a lock for as long as they live.
HANGS = """
import fcntl, pathlib, subprocess, sys
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
child = subprocess.Popen(["sleep", "1000"], pass_fds=[lock.fileno()])
with open(sys.argv[2], "a") as started: started.write("x")
child.wait()
"""


def test_a_plugin_that_hangs_takes_no_more_time_than_a_request_has_and_leaves_nothing_behind(tmp_path: Path) -> None:
    lock, started = tmp_path / "lock", tmp_path / "started"
    started.touch()
    plugin = Plugin(sys.executable, ["-c", HANGS, str(lock), str(started)], {}, "client.authentication.k8s.io/v1")

    async def story() -> None:
        async with stub() as api, api.client(plugin, timeout_s=0.3) as client:
            for _ in range(3):
                with pytest.raises(Unreachable, match=r"the exec plugin of the kubeconfig takes longer .*timeout="):
                    await client.get(LEASES, operation="look")
            async with asyncio.timeout(LIMIT_S):
                while not started.read_text():  # noqa: ASYNC110  (another process writes it)
                    await asyncio.sleep(0.02)
            assert api.requests == []

    asyncio.run(story())
    assert started.read_text() == "x"  # one run for all three
    until_s = time.monotonic() + LIMIT_S
    with lock.open("w") as held:
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                assert time.monotonic() < until_s, "something of the plugin is still alive"
                time.sleep(0.02)
            else:
                break


async def test_a_plugin_that_takes_longer_than_one_request_serves_the_next(tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = (
        "import pathlib, sys, time\n"
        "while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.02)\n"
        """print('{"apiVersion": "v1", "status": {"token": "late"}}')"""
    )
    plugin = Plugin(sys.executable, ["-c", script, str(go)], {}, "v1")
    async with stub() as api:
        async with api.client(plugin, timeout_s=0.2) as hasty:
            with pytest.raises(Unreachable):
                await hasty.get(LEASES, operation="look")
        go.touch()
        async with api.client(plugin, timeout_s=LIMIT_S) as patient:
            assert await patient.get(LEASES, operation="look")
    assert await plugin.headers() == {"Authorization": "Bearer late"}


async def test_a_plugin_for_whose_end_no_thread_can_wait_is_one_that_cannot_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def without_threads(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(asyncio.get_running_loop(), "subprocess_exec", without_threads)
    async with stub() as api, api.client(Plugin(sys.executable, [], {}, "v1")) as client:
        with pytest.raises(Refused, match=r"cannot be started \(can't start new thread\)"):
            await client.get(LEASES, operation="look")

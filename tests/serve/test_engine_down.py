"""A sidecar whose engine is down: when it starts, while it leads, and when it ends."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from tenure.errors import ConfigError, Refused, StoreError, Unreachable
from tenure.office.opened import LoopStore
from tenure.serve import sidecar
from tenure.serve.app import build
from tenure.serve.board import Board
from tenure.serve.setup import Setup
from tenure.serve.sidecar import ASKING_MAX, Sidecar
from tenure.stores.base import Traits
from tenure.stores.memory import MemoryEngine, MemoryStore
from tenure.testing.engines import EtcdCluster, PostgresCluster
from tests.processes import check_eventually
from tests.serve.inside import BEARER, TOKEN
from tests.serve.outside import Process, Stage, staged


@pytest.fixture
def cluster() -> Iterator[EtcdCluster]:
    with EtcdCluster(1) as started:
        yield started


@pytest.fixture
def stage(cluster: EtcdCluster, tmp_path: Path) -> Iterator[Stage]:
    with staged(tmp_path) as made:
        made.url = cluster.url
        yield made


def headline(sidecar: Process) -> str:
    found: str = sidecar.client.get("/v1/board").json()["headline"]["text"]
    return found


def test_who_is_started_before_its_engine_says_so_and_leads_when_that_is_there(
    cluster: EtcdCluster, stage: Stage
) -> None:
    cluster.nodes[0].kill()
    sidecar = stage.start("--stand", "jobs", "--ttl", "4s")
    assert (sidecar.status("/health"), sidecar.status("/ready"), sidecar.status("/leader/jobs")) == (200, 503, 503)
    assert (sidecar.status("/"), headline(sidecar)) == (200, "The store does not answer")
    asked = [
        sidecar.client.post("/v1/elections/other/candidacies", json={}),
        sidecar.client.post("/v1/locks/backup", json={"wait_s": 60}),
        sidecar.client.post("/v1/check", json={"election": "jobs", "token": 1}),
        sidecar.client.post("/v1/elections/jobs/resign", json={}),
        sidecar.client.get("/v1/elections/jobs/history"),
    ]
    assert {(answer.status_code, answer.json()["error"]) for answer in asked} == {(503, "store-unavailable")}
    cluster.nodes[0].start()
    check_eventually(lambda: sidecar.status("/leader/jobs") == 200)
    check_eventually(lambda: sidecar.status("/ready") == 200)
    check_eventually(lambda: headline(sidecar) == "The only election has a leader")
    cluster.nodes[0].kill()
    check_eventually(lambda: sidecar.status("/leader/jobs") == 503)  # By its own clock: nobody renews any more.
    check_eventually(lambda: headline(sidecar) == "The store does not answer")
    check_eventually(lambda: sidecar.status("/ready") == 503)
    assert sidecar.status("/health") == 200
    cluster.nodes[0].start()
    check_eventually(lambda: sidecar.status("/leader/jobs") == 200)
    assert "Traceback" not in sidecar.end()
    assert sidecar.started.returncode == 0


def test_who_waits_for_its_engine_ends_when_it_is_told_to(cluster: EtcdCluster, stage: Stage) -> None:
    cluster.nodes[0].kill()
    sidecar = stage.start("--stand", "jobs")
    assert "Traceback" not in sidecar.end()
    assert sidecar.started.returncode == 0


def test_a_store_that_can_be_opened_only_once_is_made_anew_for_every_attempt(tmp_path: Path) -> None:
    with PostgresCluster(1) as cluster, staged(tmp_path) as stage:
        stage.url = cluster.url
        cluster.nodes[0].kill()
        sidecar = stage.start("--stand", "jobs")
        assert headline(sidecar) == "The store does not answer"
        cluster.nodes[0].start()
        check_eventually(lambda: sidecar.status("/leader/jobs") == 200)
        assert sidecar.lead("other")["token"]
        said = sidecar.end()
        assert ("Traceback" in said, sidecar.started.returncode) == (False, 0)


class Late(LoopStore):
    """A store that could not be reached. The next one can be, when its engine is back; before that it says what is wrong, one by one."""

    def __init__(self, *wrong: BaseException, made: MemoryStore | None = None) -> None:
        super().__init__("memory://")
        self._unopened = made or self._unopened
        self.wrong, self.is_tried, self.is_back = list(wrong), asyncio.Event(), asyncio.Event()

    def another(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        if self.wrong:
            raise self.wrong.pop(0)
        self.is_tried.set()
        await self.is_back.wait()
        return await super().__aenter__()


class Page:
    """A sidecar that waits for its store, as somebody sees it who asks."""

    def __init__(self, sidecar: Sidecar, client: httpx.AsyncClient) -> None:
        self.sidecar, self._client = sidecar, client

    async def asked(self, method: str, path: str, **body: object) -> tuple[int, str]:
        answer = await self._client.request(method, path, json=body, headers=BEARER)
        return answer.status_code, str(answer.json().get("error"))

    async def ready(self) -> tuple[int, str]:
        answer = await self._client.get("/ready")
        return answer.status_code, str(answer.json()["trouble"])

    async def until_ready_says(self, status: int, trouble: str) -> None:
        said = 0, ""
        while said[0] != status or trouble not in said[1]:
            await asyncio.sleep(0.01)
            said = await self.ready()


UNREACHED = Unreachable("memory://", "open", "it is down")


@asynccontextmanager
async def waiting(
    store: Late, *, unreached: StoreError | None = UNREACHED, history: bool = False
) -> AsyncIterator[Page]:
    app = build(store, Setup(stand=("jobs",), history=history, tokens=(TOKEN.encode(),)), unreached)
    transport = httpx.ASGITransport(app)
    async with (
        asyncio.timeout(20),
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        yield Page(app.state.sidecar, client)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar, "_AGAIN_AFTER_S", 0.0)


def said_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "tenure.serve"]


def test_nobody_begins_to_stand_when_the_engine_comes_back_while_the_sidecar_ends() -> None:
    async def main() -> None:
        store = Late()
        async with waiting(store) as page:
            await store.is_tried.wait()
            store.is_back.set()
            await page.sidecar.close()
            assert not page.sidecar.stands.stands("jobs")
            with pytest.raises(ConfigError, match="not open"):
                _ = store.store

    asyncio.run(main())


@pytest.mark.usefixtures("impatient")
def test_who_leaves_and_has_closed_its_store_says_so_to_who_asks_for_it() -> None:
    async def main() -> None:
        store = Late()
        store.is_back.set()
        async with waiting(store) as page:
            await page.until_ready_says(200, "None")
            for _ in range(ASKING_MAX):  # The engine answers nobody, and one more waits for its turn.
                await page.sidecar.asking.acquire()
            waits = asyncio.create_task(page.asked("POST", "/v1/check", election="jobs", token=1))
            while not page.sidecar.asking._waiters:  # noqa: ASYNC110  (nobody tells)
                await asyncio.sleep(0)
            await page.sidecar.close()
            page.sidecar.asking.release()
            answers = [
                await waits,
                await page.asked("POST", "/v1/check", election="jobs", token=1),
                await page.asked("POST", "/v1/elections/jobs/candidacies"),
                await page.asked("POST", "/v1/elections/jobs/resign"),
                await page.asked("POST", "/v1/locks/backup"),
                await page.asked("GET", "/v1/elections/jobs/history"),
            ]
            assert set(answers) == {(503, "leaving")}

    asyncio.run(main())


@pytest.mark.usefixtures("impatient")
def test_an_engine_that_is_back_and_cannot_be_used_is_told_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = Late(*[ConfigError("store", "memory://", "has no room for us")] * 3)
        async with waiting(store) as page:
            await store.is_tried.wait()
            assert "no room for us" in (await page.ready())[1]
            assert "no room for us" in page.sidecar.board.as_json()["store"]["detail"]

    asyncio.run(main())
    (said,) = said_in(caplog)
    assert "no room for us" in said


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (RuntimeError("can't start new thread"), "can't start new thread"),
        (OSError(24, "Too many open files"), "Too many open files"),
        (MemoryError(), "MemoryError"),
        (asyncio.CancelledError(), "CancelledError"),
    ],
)
@pytest.mark.usefixtures("impatient")
def test_who_waits_goes_on_whatever_an_attempt_raises_and_says_so_once(
    wrong: BaseException, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        store = Late(wrong, wrong, UNREACHED, wrong)
        async with waiting(store) as page:
            await store.is_tried.wait()
            status, trouble = await page.ready()
            assert (status, told in trouble) == (503, True)
            store.is_back.set()
            await page.until_ready_says(200, "None")
            assert page.sidecar.stands.stands("jobs")

    asyncio.run(main())
    failed, reached = said_in(caplog)
    assert "is tried again" in failed
    assert told in failed
    assert "was reached" in reached


@pytest.mark.usefixtures("impatient")
def test_a_store_that_is_open_and_cannot_be_begun_with_is_closed_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mistakes, opened = [ZeroDivisionError("of a trait that nobody has thought of")], Board.opened

    def failing(board: Board, *arguments: Any) -> None:
        if mistakes:
            raise mistakes.pop()
        opened(board, *arguments)

    monkeypatch.setattr(Board, "opened", failing)

    async def main() -> None:
        store = Late()
        store.is_back.set()
        async with waiting(store, history=True) as page:
            await page.until_ready_says(200, "None")
            assert page.sidecar.stands.stands("jobs")

    asyncio.run(main())
    failed, reached = said_in(caplog)
    assert "nobody has thought of" in failed
    assert "was reached" in reached


class Nameless(MemoryStore):
    """A store for which nobody may write where its name is kept, as Consul with a token that is for other keys."""

    @property
    def identity(self) -> str:
        raise Refused(self.address, "identity", "the token may not write it")


class Long(MemoryStore):
    """A store that takes no short ttl."""

    @property
    def traits(self) -> Traits:
        return replace(super().traits, ttl_min_ns=60 * 10**9, ttl_max_ns=100 * 10**9)


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize(
    ("made", "told"),
    [
        (Nameless(MemoryEngine()), "the token may not write it"),
        (Long(MemoryEngine()), "must lie between 60 and 100 s"),
    ],
)
@pytest.mark.usefixtures("impatient")
def test_what_keeps_everybody_from_standing_is_said_in_one_line_and_the_rest_is_served(
    made: MemoryStore, told: str, is_there: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        store = Late(made=made)
        store.is_back.set()
        if is_there:
            await store.__aenter__()
        async with waiting(store, unreached=None if is_there else UNREACHED, history=True) as page:
            await page.until_ready_says(503, "jobs: ")
            assert told in (await page.ready())[1]
            await page.sidecar._looker.look()
            assert page.sidecar.board.as_json()["store"]["ok"]
        if is_there:
            await store.__aexit__()

    asyncio.run(main())
    said = said_in(caplog)
    assert [told in line for line in said] == [True] + [False] * (not is_there)
    assert "stand" in said[0]

"""What ten thousand elections, a thousand clients, and an engine that hangs cost whoever else asks."""

import asyncio
from collections.abc import Iterable
from difflib import get_close_matches

import pytest

from tenure.clock import BootClock
from tenure.serve import asking, looking, sidecar
from tenure.serve.board import Board
from tenure.serve.looking import View
from tenure.serve.register import Register
from tenure.stores.base import ElectionStatus
from tests.serve.inside import BEARER, inside


def status(name: str) -> ElectionStatus:
    return ElectionStatus(name, None, None, None, resign_asked=False, standbys=())


def test_a_thousand_wrong_names_are_compared_with_a_bounded_number_of_right_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared_count = 0

    def counting(name: str, known: Iterable[str], n: int, cutoff: float) -> list[str]:
        nonlocal compared_count
        compared_count += len(list(known))
        return get_close_matches(name, known, n=n, cutoff=cutoff)

    monkeypatch.setattr(looking, "get_close_matches", counting)
    view = View(BootClock())
    statuses = [status(f"orders/{number}") for number in range(10_000)]
    view.saw(statuses)
    assert "orders/1234" in view.near("order/1234")
    assert "orders/1234" in view.near("order/1234")  # as a load balancer asks
    for number in range(1000):
        view.near(f"wrong{number}")
    assert compared_count <= 5 * 200
    view.saw(statuses)
    assert "orders/777" in view.near("orders/77x")


def test_a_list_of_all_elections_looks_at_every_client_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with inside() as there:
            for number in range(20):
                await there.stand(f"job/{number}")
            await there.stand("job/0")
            await there.look()
            looked = 0
            count = Register.clients

            def counting(register: Register) -> object:
                nonlocal looked
                looked += 1
                return count(register)

            monkeypatch.setattr(Register, "clients", counting)
            found = (await there.client.get("/v1/elections")).json()["elections"]
            assert {one["election"]: one["here"]["clients"] for one in found} == {
                **{f"job/{number}": 1 for number in range(20)},
                "job/0": 2,
            }
            assert looked == 1

    asyncio.run(main())


@pytest.mark.parametrize("path", ["/v1/check", "/v1/elections/jobs/resign", "/v1/elections/jobs/history"])
def test_who_waits_for_its_turn_to_ask_an_engine_that_hangs_is_answered_as_well(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "_WITHIN_S", 0.05)

    async def main() -> None:
        async with inside() as there, asyncio.timeout(10):
            await there.stand()
            while not there.sidecar.asking.locked():  # Others have asked, and wait for it.
                await there.sidecar.asking.acquire()
            body = {"election": "jobs", "token": 1} if path == "/v1/check" else {}
            method = "GET" if path.endswith("history") else "POST"
            answer = await there.client.request(method, path, json=body, headers=BEARER)
            assert (answer.status_code, answer.json()["error"]) == (503, "store-unavailable")

    asyncio.run(main())


@pytest.mark.parametrize("kind", [ZeroDivisionError, RuntimeError, OSError])
def test_one_mistake_does_not_have_the_page_stand_still(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sidecar, "_AGAIN_AFTER_S", 0.0)
    told = asyncio.Event()
    changes = Board.changes
    mistakes = [kind("redis://:secret@h1")]

    def failing(board: Board) -> dict[str, object]:
        if mistakes:
            raise mistakes.pop()
        told.set()
        return changes(board)

    monkeypatch.setattr(Board, "changes", failing)

    async def main() -> None:
        async with inside() as there, asyncio.timeout(10):
            await there.stand()
            await told.wait()

    asyncio.run(main())
    (said,) = [record.getMessage() for record in caplog.records if record.name.startswith("tenure")]
    assert "a task of the sidecar (_show) has failed" in said
    assert "secret" not in said

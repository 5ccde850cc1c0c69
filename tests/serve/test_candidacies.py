"""Candidacies and locks that are held for clients: what they are promised, and that they end with them."""

import asyncio
import time

import httpx

from tenure.election import Election
from tenure.errors import Reason
from tenure.office.tenure import Tenure
from tests.serve.inside import BEARER, Inside, inside


async def delete(there: Inside, id_: object, kind: str = "candidacies") -> httpx.Response:
    return await there.client.delete(f"/v1/{kind}/{id_}", headers=BEARER)


def test_a_client_stands_leads_and_resigns_and_the_office_is_free_when_it_is_answered() -> None:
    async def main() -> None:
        async with inside() as there:
            stood = await there.stand("billing/close", advertise="http://10.0.0.5:8080")
            led = await there.wait(stood["id"])
            assert (led["state"], led["token"], led["kind"]) == ("leading", 1, "candidacy")
            assert str(led["fence"]).endswith("/billing/close")
            assert 0 < float(str(led["valid_for_s"])) < 0.8
            assert (await there.client.get("/leader/billing/close")).json() == {"leading": True, "token": 1}
            over = (await delete(there, stood["id"])).json()
            assert (over["state"], over["reason"], over["valid_for_s"]) == ("ended", "resigned", 0)
            assert await Election(there.opened, "billing/close").incumbent() is None
            assert (await there.client.get("/leader/billing/close")).status_code == 503
            again = (await delete(there, stood["id"])).json()
            assert again["state"] == "ended"

    asyncio.run(main())


def test_of_two_clients_one_leads_and_the_other_hears_of_it_by_waiting_when_that_one_leaves() -> None:
    async def main() -> None:
        async with inside() as there:
            first = await there.wait((await there.stand())["id"])
            second = await there.stand()
            assert second["state"] == "waiting"
            assert (await there.client.get("/standby/jobs")).status_code == 503  # It leads as well.
            waiting = asyncio.create_task(there.wait(second["id"]))
            await delete(there, first["id"])
            led = await waiting
            assert (led["state"], led["token"]) == ("leading", 2)

    asyncio.run(main())


def test_a_client_that_is_not_heard_of_loses_its_office_after_its_time_and_not_before_it_was_promised() -> None:
    async def main() -> None:
        async with inside() as there:
            led = await there.wait((await there.stand(keep_s=1, ttl_s=30))["id"])
            loop = asyncio.get_running_loop()
            asked_s = loop.time()
            beat = await there.client.post(f"/v1/candidacies/{led['id']}/heartbeat", headers=BEARER)
            assert 0.5 < beat.json()["valid_for_s"] <= 1  # Of a lease of 30 s: more was not promised.
            other = Election(there.opened, "jobs", ttl=30)
            async with other.once() as tenure:
                assert loop.time() >= asked_s + beat.json()["valid_for_s"]
                assert tenure.token == 2
                seen = (await there.client.get(f"/v1/candidacies/{led['id']}", headers=BEARER)).json()
                assert (seen["state"], seen["reason"], seen["valid_for_s"]) == ("ended", "client-gone", 0)

    asyncio.run(main())


def test_an_answer_that_is_waited_for_comes_within_half_of_the_clients_own_time() -> None:
    async def main() -> None:
        async with inside() as there:
            led = await there.wait((await there.stand(keep_s=1))["id"])
            loop = asyncio.get_running_loop()
            for _ in range(4):  # Twice its time, and it stays in office: each question is a sign of life.
                begun_s = loop.time()
                url = f"/v1/candidacies/{led['id']}?wait_s=300"
                seen = (await there.client.get(url, headers=BEARER)).json()
                assert seen["state"] == "leading"
                assert 0.4 < loop.time() - begun_s < 0.95

    asyncio.run(main())


def test_a_tenure_that_the_store_ends_is_lost_and_never_comes_back_under_the_same_id() -> None:
    async def main() -> None:
        async with inside() as there:
            led = await there.wait((await there.stand())["id"])
            there.opened.office.loop.call_soon_threadsafe(there.store._engine.delete, "jobs")
            lost = await there.wait(led["id"], "leading")
            assert (lost["state"], lost["reason"], lost["token"]) == ("lost", "deposed", led["token"])
            over = (await delete(there, led["id"])).json()
            assert over["state"] == "lost"
            assert await Election(there.opened, "jobs").incumbent() is None

    asyncio.run(main())


def test_nothing_more_is_promised_from_when_the_office_knows_that_a_tenure_has_to_stop() -> None:
    async def main() -> None:
        async with inside() as there:
            stood = await there.wait((await there.stand(keep_s=5, ttl_s=60))["id"])
            one = there.sidecar.register.get(str(stood["id"]))
            until = one._promised_until
            assert one._tenure is not None
            one._tenure._term.held.reason = Reason.DEPOSED  # It is told on another thread, and here a moment later.
            assert one.as_json()["state"] == "leading"
            assert one._promised_until == until

    asyncio.run(main())


def test_who_is_asked_to_leave_is_told_first_and_the_office_waits_until_it_has_stopped() -> None:
    async def main() -> None:
        async with inside() as there:
            led = await there.wait((await there.stand(ttl_s=4))["id"])
            await there.look()
            asked = await there.client.post("/v1/elections/jobs/resign", headers=BEARER)
            assert asked.json()["asked"]["token"] == led["token"]
            lost = await there.wait(led["id"], "leading")
            assert (lost["state"], lost["reason"]) == ("lost", "resigned")
            assert float(str(lost["valid_for_s"])) > 0  # Its time to stop in.
            incumbent = await Election(there.opened, "jobs").incumbent()
            assert incumbent is not None
            assert incumbent.token == led["token"]
            await delete(there, led["id"])  # It has stopped.
            assert await Election(there.opened, "jobs").incumbent() is None

    asyncio.run(main())


def test_a_lock_is_held_by_one_others_are_told_so_and_who_waits_gets_it_when_it_is_free() -> None:
    async def main() -> None:
        async with inside() as there:
            url = "/v1/locks/back/up"
            held = (await there.client.post(url, headers=BEARER)).json()
            assert (held["kind"], held["state"], held["token"]) == ("lock", "leading", 1)
            await there.look()
            refused = await there.client.post(url, headers=BEARER, json={"wait_s": 0})
            assert (refused.status_code, refused.json()["error"]) == (423, "locked")
            assert refused.json()["leader"]["token"] == 1
            waiting = asyncio.create_task(there.client.post(url, headers=BEARER, json={"wait_s": 20}))
            await asyncio.sleep(0)
            assert (await delete(there, held["id"], "locks")).json()["state"] == "ended"
            got = (await waiting).json()
            assert (got["state"], got["token"]) == ("leading", 2)
            assert (await delete(there, got["id"], "locks")).status_code == 200

    asyncio.run(main())


def test_a_lock_of_a_store_that_is_lost_is_no_lock_of_others() -> None:
    async def main() -> None:
        async with inside() as there:
            there.store.lost = True
            answer = await there.client.post("/v1/locks/backup", headers=BEARER)
            assert (answer.status_code, answer.json()["error"]) == (503, "store-unavailable")
            assert "retry-after" in answer.headers

    asyncio.run(main())


def test_a_token_is_checked_by_the_stores_own_word() -> None:
    async def main() -> None:
        async with inside() as there:
            led = await there.wait((await there.stand())["id"])
            asked = [{"election": "jobs", "token": token} for token in (1, 2)]
            told = [(await there.client.post("/v1/check", json=one)).json() for one in asked]
            assert [one["granted"] for one in told] == [True, False]
            await delete(there, led["id"])
            assert not (await there.client.post("/v1/check", json=asked[0])).json()["granted"]

    asyncio.run(main())


def test_leaving_tells_clients_first_and_waits_until_they_stopped_or_what_they_were_promised_is_over() -> None:
    async def main() -> None:
        async with inside(drain_s=20.0) as there:
            quick = await there.wait((await there.stand("quick", ttl_s=60))["id"])
            slow = await there.wait((await there.stand("slow", ttl_s=60, keep_s=2))["id"])
            waits = await there.stand("slow")
            loop = asyncio.get_running_loop()
            begun_s = loop.time()
            leaving = asyncio.create_task(there.sidecar.register.close(20.0))
            lost = await there.wait(quick["id"], "leading")
            assert (lost["state"], lost["reason"]) == ("lost", "shutdown")
            # Who stops is sent nobody any more, although the office is not free yet.
            assert (await there.client.get("/leader/quick")).status_code == 503
            assert await Election(there.opened, "quick").incumbent() is not None
            await delete(there, quick["id"])
            assert await Election(there.opened, "quick").incumbent() is None
            assert await Election(there.opened, "slow").incumbent() is not None
            await leaving  # "slow" says nothing. What it was promised ends with its own time.
            assert loop.time() - begun_s < 10
            assert await Election(there.opened, "slow").incumbent() is None
            assert (await there.wait(waits["id"]))["state"] == "ended"
            refused = await there.client.post("/v1/elections/more/candidacies", headers=BEARER)
            assert (refused.status_code, refused.json()["error"]) == (503, "leaving")
            assert slow["state"] == "leading"

    asyncio.run(main())


def test_leader_is_judged_by_the_clock_at_every_answer_and_asks_nobody() -> None:
    async def main() -> None:
        async with inside(stand=("jobs",)) as there:
            await there.until(200)
            offices = there.sidecar.register.offices
            tenure = offices.held("jobs")
            assert tenure is not None
            there.store.lost = True  # No renewal comes any more.
            while (
                tenure.valid
            ):  # The loop stands still meanwhile, as that of a frozen process does: nobody can tell it.
                time.sleep(0.01)  # noqa: ASYNC251  (that is the point)
            assert offices._held["jobs"] == [tenure], "it still believes so"
            assert offices.held("jobs") is None
            assert (await there.client.get("/leader/jobs")).status_code == 503
            assert there.store.asked["read"] <= 1  # Its history, once, for the page.

    asyncio.run(main())


def test_a_sidecar_that_does_not_lead_says_who_does_and_where() -> None:
    async def main() -> None:
        async with inside(stand=("jobs",)) as there:

            async def body(_: Tenure) -> None:
                await there.look()
                answer = await there.client.get("/leader/jobs")
                assert answer.status_code == 503
                assert answer.headers["tenure-leader"] == "http://10.0.0.9:80"
                assert answer.json()["leader"]["advertised"] == "http://10.0.0.9:80"
                head = await there.client.head("/leader/jobs")
                assert (head.status_code, head.content) == (503, b"")
                assert (await there.client.get("/standby/jobs")).status_code == 200
                assert (await there.client.get("/ready")).status_code == 200

            await there.sidecar.stands.end()
            there.sidecar.stands.start()
            other = Election(there.opened, "jobs", ttl=5, advertise="http://10.0.0.9:80")
            await there.until(200)
            await there.look()
            leading = asyncio.create_task(other.lead(body))
            await there.client.post("/v1/elections/jobs/resign", headers=BEARER)
            await leading

    asyncio.run(main())


def test_ready_says_that_the_store_is_gone_and_health_that_the_process_is_not() -> None:
    async def main() -> None:
        async with inside() as there:
            await there.look()
            assert (await there.client.get("/ready")).status_code == 200
            there.store.lost = True
            await there.look()
            told = (await there.client.get("/v1/elections")).json()
            assert "cut off by the test" in told["trouble"]
            there.sidecar.view._at_ns = 0
            answer = await there.client.get("/ready")
            assert (answer.status_code, answer.json()["ready"]) == (503, False)
            assert (await there.client.get("/health")).status_code == 200

    asyncio.run(main())


def test_however_many_look_the_store_is_looked_at_once() -> None:
    async def main() -> None:
        async with inside() as there:
            await there.stand()
            await there.settled()
            looks, asked = there.store.looks, there.store.asked["read"]
            for _ in range(100):
                assert (await there.client.get("/v1/elections")).status_code == 200
                assert (await there.client.get("/v1/elections/jobs")).json()["here"]["clients"] == 1
                assert (await there.client.get("/v1/board")).status_code == 200
            assert there.store.looks - looks <= 3  # Once a second, whoever looks.
            assert there.store.asked["read"] == asked

    asyncio.run(main())


def test_the_history_of_what_clients_led_is_on_record() -> None:
    async def main() -> None:
        async with inside(history=True) as there:
            led = await there.wait((await there.stand())["id"])
            lock = (await there.client.post("/v1/locks/backup", headers=BEARER)).json()
            await delete(there, led["id"])
            await delete(there, lock["id"])
            await there.look()
            async with asyncio.timeout(20):
                while True:
                    told = (await there.client.get("/v1/elections/jobs/history")).json()
                    if told["tenures"] and told["tenures"][0]["reason"] == "resigned":
                        break
            assert [one["token"] for one in told["tenures"]] == [led["token"]]
            assert (await there.client.get("/v1/elections/backup/history")).json()["tenures"] == []

    asyncio.run(main())

"""Asking a leader to leave, by its token: only the tenure that is meant is asked."""

import asyncio

from tests.serve.inside import BEARER, inside

URL = "/v1/elections/jobs/resign"


def test_a_tenure_that_is_over_is_not_asked_and_neither_is_the_next_one() -> None:
    async def main() -> None:
        async with inside() as there:
            ada = await there.wait((await there.stand())["id"])
            await there.look()
            await there.client.delete(f"/v1/candidacies/{ada['id']}", headers=BEARER)
            nobody = await there.client.post(URL, headers=BEARER, json={"token": ada["token"]})
            assert (nobody.status_code, nobody.json()["leader"]) == (409, None)
            bob = await there.wait((await there.stand())["id"])
            late = await there.client.post(URL, headers=BEARER, json={"token": ada["token"]})
            assert (late.status_code, late.json()["error"]) == (409, "tenure-over")
            assert late.json()["leader"]["token"] == bob["token"]
            assert "the tenure with token 1 is over: " in late.json()["detail"]
            await there.look()
            assert not there.sidecar.view.statuses["jobs"].resign_asked
            asked = await there.client.post(URL, headers=BEARER, json={"token": bob["token"]})
            assert asked.json()["asked"]["token"] == bob["token"]
            assert (await there.wait(bob["id"], "leading"))["reason"] == "resigned"

    asyncio.run(main())


def test_a_token_that_is_none_is_refused() -> None:
    async def main() -> None:
        async with inside() as there:
            await there.wait((await there.stand())["id"])
            await there.look()
            for token in (0, -1, 2**63, "1", 1.5, True):
                refused = await there.client.post(URL, headers=BEARER, json={"token": token})
                assert (refused.status_code, refused.json().get("field")) == (422, "token"), token

    asyncio.run(main())

"""What cannot be answered is refused in one form, says why, and does not reach the engine."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from tenure.errors import ConfigError
from tenure.serve import gate
from tenure.serve.answers import Fault
from tenure.serve.gate import BODY_BYTES_MAX, Bearer, Hosts
from tenure.serve.setup import tokens_in
from tests.serve.inside import BEARER, TOKEN, Inside, inside

JSON = {"Content-Type": "application/json"}
STAND = "/v1/elections/jobs/candidacies"

REFUSED = [
    ("an unknown election", "GET", "/leader/jobz", {}, b"", 404, "unknown-election"),
    ("an unknown election", "GET", "/standby/jobz", {}, b"", 404, "unknown-election"),
    ("an unknown election", "GET", "/v1/elections/jobz", {}, b"", 404, "unknown-election"),
    ("an unknown election", "GET", "/v1/elections/jobz/history", {}, b"", 404, "unknown-election"),
    ("an unknown election", "POST", "/v1/elections/jobz/resign", BEARER, b"", 404, "unknown-election"),
    ("an unknown election", "POST", "/v1/check", JSON, b'{"election":"jobz","token":1}', 404, "unknown-election"),
    ("no path of ours", "GET", "/v2/elections", {}, b"", 404, "no-such-path"),
    ("no path of ours", "GET", "/leader/", {}, b"", 404, "no-such-path"),
    ("no UTF-8", "GET", "/leader/%ff", {}, b"", 400, "bad-path"),
    ("a line break", "GET", "/leader/a%0d%0aX-Evil:1", {}, b"", 404, "unknown-election"),
    ("a line break", "POST", "/v1/elections/a%0d%0aX-Evil:1/candidacies", BEARER, b"", 422, "invalid"),
    ("a line break", "GET", "/no%0asuch%0dpath", {}, b"", 404, "no-such-path"),
    ("a long name", "GET", f"/leader/{'x' * 5000}", {}, b"", 404, "unknown-election"),
    ("a long name", "POST", f"/v1/elections/{'x' * 256}/candidacies", BEARER, b"", 422, "invalid"),
    ("a path too long", "GET", f"/leader/{'x' * 20_000}", {}, b"", 431, "head-too-large"),
    ("a query too long", "GET", f"/v1/events?election={'x' * 20_000}", {}, b"", 431, "head-too-large"),
    ("another folder", "GET", "/assets/../board.py", {}, b"", 404, "no-such-path"),
    ("another folder", "GET", "/assets/..%2f..%2fsetup.py", {}, b"", 404, "no-such-file"),
    (
        "two lengths",
        "POST",
        STAND,
        {**BEARER, "Transfer-Encoding": "chunked", "Content-Length": "2"},
        b"{}",
        400,
        "bad-length",
    ),
    ("no id", "GET", "/v1/candidacies/none", BEARER, b"", 404, "unknown-id"),
    ("no id", "DELETE", "/v1/locks/none", BEARER, b"", 404, "unknown-id"),
    ("no JSON", "POST", STAND, {**BEARER, **JSON}, b"{", 400, "bad-json"),
    ("no JSON", "POST", STAND, {**BEARER, **JSON}, b"\xff", 400, "bad-json"),
    ("no JSON", "POST", STAND, {**BEARER, **JSON}, b'{"ttl_s":NaN}', 400, "bad-json"),
    ("too deep", "POST", STAND, {**BEARER, **JSON}, b"[" * 10_000, 400, "bad-json"),
    ("no object", "POST", STAND, {**BEARER, **JSON}, b"[]", 422, "invalid"),
    ("too large", "POST", STAND, {**BEARER, **JSON}, b" " * (BODY_BYTES_MAX + 1), 413, "too-large"),
    ("no type", "POST", STAND, BEARER, b"{}", 415, "not-json"),
    ("a form", "POST", STAND, {**BEARER, "Content-Type": "text/plain"}, b"{}", 415, "not-json"),
    ("a field of another type", "POST", STAND, {**BEARER, **JSON}, b'{"ttl_s":"8"}', 422, "invalid"),
    ("a bool for a number", "POST", STAND, {**BEARER, **JSON}, b'{"keep_s":true}', 422, "invalid"),
    ("an unknown field", "POST", STAND, {**BEARER, **JSON}, b'{"tl_s":8}', 422, "invalid"),
    ("out of range", "POST", STAND, {**BEARER, **JSON}, b'{"keep_s":1e9}', 422, "invalid"),
    ("a ttl that cannot work", "POST", STAND, {**BEARER, **JSON}, b'{"ttl_s":604801}', 422, "invalid"),
    ("a name that cannot be", "POST", "/v1/elections/a//b/candidacies", BEARER, b"", 422, "invalid"),
    ("a name that cannot be", "POST", "/v1/locks/%00", BEARER, b"", 422, "invalid"),
    ("a token out of range", "POST", "/v1/check", JSON, b'{"election":"jobs","token":0}', 422, "invalid"),
    ("a missing field", "POST", "/v1/check", JSON, b'{"election":"jobs"}', 422, "invalid"),
    ("a query of another type", "GET", "/v1/candidacies/x?wait_s=long", BEARER, b"", 422, "invalid"),
    ("a query that is no text", "GET", "/v1/candidacies/x?wait_s=%ff", BEARER, b"", 400, "bad-query"),
    ("a state that is none", "GET", "/v1/candidacies/x?while=happy", BEARER, b"", 422, "invalid"),
    ("another method", "PUT", STAND, BEARER, b"", 405, "method-not-allowed"),
    ("another method", "POST", "/leader/jobs", {}, b"", 405, "method-not-allowed"),
    ("another method", "OPTIONS", STAND, {"Origin": "http://evil.example"}, b"", 405, "method-not-allowed"),
    ("no token", "POST", STAND, {}, b"", 401, "token-missing"),
    ("a wrong token", "POST", STAND, {"Authorization": f"Bearer {TOKEN}x"}, b"", 401, "token-wrong"),
    ("another scheme", "POST", STAND, {"Authorization": f"Basic {TOKEN}"}, b"", 401, "token-wrong"),
    ("another Host", "GET", "/health", {"Host": "evil.example"}, b"", 403, "host-not-allowed"),
    ("another Host", "POST", STAND, {**BEARER, "Host": "evil.example:8087"}, b"", 403, "host-not-allowed"),
]


async def ask(there: Inside, method: str, path: str, headers: dict[str, str], content: bytes) -> httpx.Response:
    return await there.client.request(method, path, headers=headers, content=content)


def test_whatever_is_refused_says_why_and_nothing_of_it_reaches_the_engine() -> None:
    async def main() -> None:
        async with inside() as there:
            held = await there.wait((await there.stand("jobs", ttl_s=60, keep_s=60))["id"])
            await there.settled()
            before = dict(there.store.asked)
            for what, method, path, headers, content, status, error in REFUSED:
                answer = await ask(there, method, path, headers, content)
                told = answer.json()
                assert (answer.status_code, told["error"]) == (status, error), (what, answer.text)
                assert told["detail"], what
                assert TOKEN not in answer.text
                assert "Traceback" not in answer.text
                assert "access-control-allow-origin" not in answer.headers
                assert (status == 405) == ("allow" in answer.headers)
                assert (status == 401) == ("www-authenticate" in answer.headers)
            assert dict(there.store.asked) == before
            assert (await there.wait(held["id"], "waiting"))["state"] == "leading"

    asyncio.run(main())


def test_an_unknown_election_is_answered_with_near_names_and_a_wrong_field_by_its_name() -> None:
    async def main() -> None:
        async with inside() as there:
            for name in ("billing/close", "billing/open", "reports"):
                await there.stand(name)
            await there.look()
            told = (await there.client.get("/leader/billing/clos")).json()
            assert told["near"][0] == "billing/close"
            assert "reports" not in told["near"]
            assert told["seen_s_ago"] < 10
            sent = {"ttl_s": "8"}
            told = (await there.client.post(STAND, json=sent, headers=BEARER)).json()
            assert told["field"] == "ttl_s"
            told = (await there.client.post(STAND, json={"tl_s": 8}, headers=BEARER)).json()
            assert told["fix"] == "Did you mean ttl_s?"

    asyncio.run(main())


def test_who_has_no_token_configured_or_is_read_only_writes_nothing_and_learns_how() -> None:
    async def main() -> None:
        async with inside(tokens=()) as there:
            told = await there.client.post(STAND, headers=BEARER)
            assert (told.status_code, told.json()["error"]) == (403, "read-only")
            assert "--token-file" in told.json()["fix"]
            assert (await there.client.get("/v1/elections")).status_code == 200
        async with inside(read_only=True) as there:
            told = await there.client.post(STAND, headers=BEARER)
            assert (told.status_code, told.json()["fix"]) == (403, "Start it without --read-only.")
            assert not there.store.asked

    asyncio.run(main())


def test_who_asks_too_often_is_told_when_to_come_again_and_probes_are_never_refused() -> None:
    async def main() -> None:
        async with inside(rate_per_s=2.0) as there:
            answers = [(await there.client.get("/v1/elections")) for _ in range(8)]
            late = [answer for answer in answers if answer.status_code == 429]
            assert late
            assert all(int(answer.headers["retry-after"]) >= 1 for answer in late)
            assert late[0].json()["error"] == "too-many-requests"
            assert {(await there.client.get("/health")).status_code for _ in range(50)} == {200}

    asyncio.run(main())


def test_who_has_the_token_is_not_refused_for_what_others_at_its_address_ask() -> None:
    async def main() -> None:
        async with inside(rate_per_s=2.0) as there:
            stood = await there.stand()
            wrong = {"Authorization": "Bearer wrong"}
            beat = f"/v1/candidacies/{stood['id']}/heartbeat"
            assert 429 in {(await there.client.get("/v1/elections")).status_code for _ in range(8)}
            assert 429 in {(await there.client.post(beat, headers=wrong)).status_code for _ in range(30)}
            assert (await there.client.post(beat, headers=BEARER)).status_code == 200
            # It has a rate all the same.
            assert 429 in {(await there.client.post(beat, headers=BEARER)).status_code for _ in range(8)}

    asyncio.run(main())


def test_who_guesses_tokens_is_slowed_down() -> None:
    async def main() -> None:
        async with inside() as there:
            wrong = {"Authorization": "Bearer wrong"}
            answers = [(await there.client.post(STAND, headers=wrong)).status_code for _ in range(30)]
            assert answers[0] == 401
            assert answers[-1] == 429

    asyncio.run(main())


@pytest.mark.parametrize(
    ("host", "passes"),
    [
        (None, True),
        ("127.0.0.1", True),
        ("127.0.0.1:8087", True),
        ("[::1]:8087", True),
        ("10.1.2.3", True),
        ("LocalHost:8087", True),
        ("localhost.", True),
        ("a.localhost", True),
        ("tenure.internal", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("10.1.2", False),
        ("", False),
        ("evil.example#localhost", False),
    ],
)
def test_a_name_that_others_could_point_here_is_refused_and_an_address_is_no_name(
    host: str | None, passes: bool
) -> None:
    hosts = Hosts(["Tenure.Internal"])
    if passes:
        hosts.check(None if host is None else host.encode())
        assert not hosts._known or host is not None
    else:
        with pytest.raises(Fault, match="host-not-allowed"):
            hosts.check((host or "").encode())


@pytest.mark.parametrize("content", [b"", b"\n \n", b"short\n", b"0123456789abcdef\nwith space in it\n", b"x" * 70_000])
def test_a_file_of_tokens_that_are_none_is_refused_without_showing_one(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        tokens_in(file)
    assert "short" not in str(caught.value)
    assert "with space" not in json.dumps(str(caught.value))


def test_a_file_may_have_two_tokens_so_that_clients_can_change_over(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"0123456789abcdef\n\nfedcba9876543210\n")
    assert tokens_in(file) == (b"0123456789abcdef", b"fedcba9876543210")


class Untouchable(bytes):
    """A token that must not be compared by what stops at the first byte that differs."""

    __hash__ = bytes.__hash__

    def __eq__(self, other: object) -> bool:
        raise AssertionError("how long that takes tells how much was right")

    def startswith(self, *_: object) -> bool:
        raise AssertionError("likewise")


def test_tokens_are_compared_in_constant_time() -> None:
    bearer = Bearer([Untouchable(b"0123456789abcdef"), Untouchable(b"fedcba9876543210")])
    bearer.check(b"Bearer fedcba9876543210", "")
    bearer.check(b"bearer  0123456789abcdef ", "")
    for wrong in (b"Bearer 0123456789abcdeg", b"Bearer ", b"Bearer", b"Basic 0123456789abcdef", b"Bearer \xff"):
        with pytest.raises(Fault, match="token-wrong"):
            bearer.check(wrong, "")


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "BODY_WITHIN_S", 0.05)

    async def silence() -> dict[str, object]:
        await asyncio.sleep(60)
        return {}

    async def main() -> None:
        async with asyncio.timeout(10):
            with pytest.raises(Fault, match="408 too-slow"):
                await gate.read_body({b"content-length": b"50"}, silence)

    asyncio.run(main())


def test_a_mistake_of_ours_is_answered_without_saying_what_it_was() -> None:
    async def main() -> None:
        async with inside() as there:
            del there.sidecar.metrics  # What nobody foresaw.
            answer = await there.client.get("/metrics")
            assert (answer.status_code, answer.json()["error"]) == (500, "internal")
            assert "Traceback" not in answer.text

    asyncio.run(main())

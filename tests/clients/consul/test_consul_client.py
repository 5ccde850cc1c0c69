"""What is sent to Consul, and what its answers mean: told by a server that answers as it is told to."""

import asyncio
from pathlib import Path

import pytest

from tenure.clients.consul.failures import Conflict, NoSessionThere, NotAllowed, TtlRefused, failure
from tenure.clients.consul.messages import lock, put, unchanged
from tenure.clients.http import Answer
from tenure.errors import OutcomeUnknown, Refused, Unreachable
from tests.clients.consul.consul_stub import PAIR, Consul, asking, ok, play


def test_datacentre_namespace_partition_and_token_go_with_every_request() -> None:
    async def story() -> None:
        consul = Consul(ok({"Results": [{"KV": PAIR}]}), ok([PAIR], X_Consul_Index="9"), ok({"ID": "s"}))
        async with asking(consul, user="secret@", query="?dc=a&ns=b&partition=c") as client:
            await client.txn([put("x", b"1")], operation="write")
            await client.changed("x/.lock", 4)
            await client.create_session("n", 10**10, 0)
        for told in consul.told:
            assert {name: told.query[name] for name in ("dc", "ns", "partition")} == {
                "dc": "a",
                "ns": "b",
                "partition": "c",
            }
            assert told.headers["x-consul-token"] == "secret"
        assert consul.told[0].body == [
            {"KV": {"Verb": "set", "Key": "x", "Value": "MQ==", "Flags": 0, "Namespace": "b", "Partition": "c"}}
        ]
        assert consul.told[2].body["Checks"] == consul.told[2].body["NodeChecks"] == []

    play(story())


def test_what_decides_is_asked_for_as_the_servers_decide_it_and_a_wait_is_not() -> None:
    async def story() -> None:
        consul = Consul(ok({"Results": [{"KV": PAIR}]}), ok([PAIR], X_Consul_Index="9"), ok({"Results": []}))
        async with asking(consul) as client:
            await client.get("x/.lock", operation="read")
            await client.changed("x/.lock", 4)
            await client.txn([unchanged("x", 3), lock("x", b"", 0, "s")], operation="claim")
        assert ["consistent" in told.query for told in consul.told] == [True, False, False]
        assert (consul.told[1].query["index"], consul.told[1].query["wait"]) == ("4", "10s")

    play(story())


@pytest.mark.parametrize(
    ("asked", "answered", "next_index"),
    [(4, "9", 9), (9, "9", 9), (9, "4", 0), (9, "0", 0), (0, "0", 1), (0, "rubbish", 1), (0, "", 1)],
)
def test_an_index_that_goes_back_is_forgotten_and_one_that_is_none_is_one(
    asked: int, answered: str, next_index: int
) -> None:
    async def story() -> None:
        headers = {"X_Consul_Index": answered} if answered else {}
        async with asking(Consul(ok([PAIR], **headers))) as client:
            pair, index = await client.changed("x/.lock", asked)
            assert pair is not None
            assert (pair.value, pair.session, index) == (b"hi", "", next_index)

    play(story())


def test_a_server_that_does_not_answer_is_left_for_the_next_one_and_nothing_is_sent_twice() -> None:
    async def story() -> None:
        silent, well = Consul(None), Consul(ok('"leader:1"'))
        async with asking(silent, well, query="?timeout=0.3") as client:
            client._endpoints.sort(key=lambda endpoint: endpoint != client.settings.endpoints[0])
            with pytest.raises(OutcomeUnknown, match=r"no answer within 0\.\d+ s"):
                await client.leader()
            assert await client.leader() == "leader:1"
        assert (len(silent.told), len(well.told)) == (1, 1)

    play(story())


def test_a_token_is_read_again_from_its_file_only_when_it_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")

    async def story() -> None:
        consul = Consul(ok('"a:1"'), (403, "ACL not found", {}), ok('"a:1"'), (403, "ACL not found", {}))
        async with asking(consul, query=f"?token_file={file}") as client:
            await client.leader()
            file.write_text("new\n")
            assert await client.leader() == "a:1"
            with pytest.raises(NotAllowed, match="does not know our token"):  # The file has nothing better to offer.
                await client.leader()
        assert [told.headers["x-consul-token"] for told in consul.told] == ["old", "old", "new", "new"]

    play(story())


DENIED: dict[str, object] = {"Errors": [{"OpIndex": 0, "What": "Permission denied: lacks permission 'key:read'"}]}
ABSENT: dict[str, object] = {"Errors": [{"OpIndex": 0, "What": 'key "x/.lock" doesn\'t exist'}]}
FOUND: dict[str, object] = {"Results": [{"KV": PAIR}]}


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([(409, DENIED, {})], id="refused as a conflict"),
        pytest.param([(200, {"Results": []}, {})], id="left out of the answer"),
        pytest.param([(409, ABSENT, {}), (409, DENIED, {}), (409, ABSENT, {})], id="said to be absent"),
    ],
)
def test_a_token_is_read_again_also_if_a_transaction_says_no_more_than_that_a_key_is_not_for_it(
    tmp_path: Path, answers: list[tuple[int, object, dict[str, str]]]
) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")

    async def story() -> None:
        consul = Consul(*answers, ok(FOUND))
        async with asking(consul, query=f"?token_file={file}") as client:
            file.write_text("new\n")
            pair = await client.get("x/.lock", operation="read")
            assert pair is not None
            assert pair.modify_index == 9
        assert consul.told[0].headers["x-consul-token"] == "old"
        assert consul.told[-1].headers["x-consul-token"] == "new"

    play(story())


def test_a_transaction_that_a_replaced_token_may_not_carry_out_is_sent_once_more_and_no_more(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")

    async def story() -> None:
        consul = Consul((409, DENIED, {}), ok(FOUND), (409, DENIED, {}))
        async with asking(consul, query=f"?token_file={file}") as client:
            file.write_text("new\n")
            assert len(await client.txn([put("x/.lock", b"")], operation="write")) == 1
            with pytest.raises(NotAllowed):  # The file has nothing better to offer.
                await client.txn([put("x/.lock", b"")], operation="write")
        assert [told.headers["x-consul-token"] for told in consul.told] == ["old", "new", "new"]

    play(story())


def test_more_requests_than_an_agent_takes_at_once_are_sent_one_after_the_other() -> None:
    async def story() -> None:
        open_count = most_count = 0

        class Counting(Consul):
            async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                nonlocal open_count, most_count
                open_count += 1
                most_count = max(most_count, open_count)
                try:
                    await super().serve(reader, writer)
                finally:
                    open_count -= 1

        consul = Counting(*(ok('"a:1"') for _ in range(300)))
        async with asking(consul, query="?timeout=20") as client:
            assert set(await asyncio.gather(*(client.leader() for _ in range(300)))) == {"a:1"}
        # An agent takes 200 as shipped, and a store has up to 100 waits.
        assert most_count <= 100

    play(story())


def test_a_request_that_finds_no_room_in_time_was_certainly_not_sent() -> None:
    async def story() -> None:
        silent = Consul(*(None for _ in range(300)))
        async with asking(silent, query="?timeout=2") as client:
            answers = await asyncio.gather(*(client.leader() for _ in range(300)), return_exceptions=True)
        assert {type(answer) for answer in answers} == {OutcomeUnknown, Unreachable}
        no_room = [answer for answer in answers if "under way already" in str(answer)]
        assert no_room
        assert all(isinstance(answer, Unreachable) for answer in no_room)
        assert len(silent.told) <= 300 - len(no_room)

    play(story())


def test_an_operation_that_is_not_on_a_key_is_passed_on_as_it_is() -> None:
    async def story() -> None:
        other = {"Session": {"Verb": "delete", "Session": {"ID": "s"}}}
        consul = Consul(ok(FOUND))
        async with asking(consul, query="?ns=b") as client:
            await client.txn([other, put("x", b"")], operation="write")
        assert consul.told[0].body[0] == other

    play(story())


@pytest.mark.parametrize(
    ("status", "text", "kind", "words"),
    [
        (400, 'Invalid query parameter: "ns" - Namespaces are a Consul Enterprise feature', Refused, "leave ns="),
        (
            403,
            "Permission denied: token with AccessorID 'x' lacks permission 'session:write'",
            NotAllowed,
            "session write",
        ),
        (
            403,
            "Permission denied: anonymous token lacks permission 'key:read' on \"x\"",
            NotAllowed,
            "CONSUL_HTTP_TOKEN",
        ),
        (429, "Too many concurrent connections", Unreachable, "http_max_conns_per_client"),
        (503, "rpc error making call: rate limit reached, try again later", Unreachable, "takes no more from here"),
        (500, "No cluster leader", Unreachable, "more than half of the servers"),
        (500, "rpc error making call: node is not the leader", Unreachable, "has no leader"),
        (500, "No path to datacenter", Unreachable, "check dc="),
        (500, "rpc error making call: apply failed: Missing node registration", Unreachable, "is leaving the cluster"),
        (
            500,
            "cross datacenter lock must be created at server agent",
            NoSessionThere,
            "name agents of that datacentre",
        ),
        (500, "leadership lost while committing log", OutcomeUnknown, "leadership lost"),
        (502, "<html>bad gateway</html>", OutcomeUnknown, "is that a Consul"),
        (404, "<html>not found</html>", Refused, "is that a Consul"),
        (503, "", OutcomeUnknown, "status 503"),
    ],
)
def test_each_answer_is_one_of_three_outcomes_with_one_line_on_what_to_do(
    status: int, text: str, kind: type[Exception], words: str
) -> None:
    error = failure(Answer(status, {}, text.encode()), "consul://h", "claim")
    assert type(error) is kind
    assert words in str(error)
    assert "\n" not in str(error)


def test_a_node_that_is_not_known_passes_in_its_own_datacentre_and_is_a_refusal_in_another_one() -> None:
    async def story() -> None:
        words = "rpc error making call: apply failed: Missing node registration"
        unknown: tuple[int, object, dict[str, str]] = (500, words, {})
        async with asking(Consul(unknown), query="?dc=b") as client:
            with pytest.raises(NoSessionThere, match="name agents of that datacentre in the URL"):
                await client.create_session("n", 10**10, 0)
        leaving, well = Consul(unknown), Consul(ok({"ID": "s"}))
        async with asking(leaving, well) as client:
            client._endpoints.sort(key=lambda endpoint: endpoint != client.settings.endpoints[0])
            with pytest.raises(Unreachable, match="leaving the cluster, or has just come"):
                await client.create_session("n", 10**10, 0)
            assert await client.create_session("n", 10**10, 0) == "s"  # The other agent has a node.

    play(story())


@pytest.mark.parametrize(
    ("least", "least_ns"), [("10s", 10**10), ("1m0s", 60 * 10**9), ("500ms", 5 * 10**8), ("1h0m1.5s", 3601_500_000_000)]
)
def test_the_shortest_session_is_read_from_the_refusal_of_one(least: str, least_ns: int) -> None:
    text = f"rpc error making call: Invalid Session TTL '1000000', must be between [{least}=24h0m0s]"
    error = failure(Answer(500, {}, text.encode()), "consul://h", "create a session")
    assert isinstance(error, TtlRefused)
    assert error.least_ns == least_ns
    assert f"no session shorter than {least}" in str(error)


def test_a_refused_transaction_says_which_operation_and_a_missing_right_is_a_refusal() -> None:
    async def story() -> None:
        errors = [{"OpIndex": 1, "What": "failed to lock key, lock is already held"}]
        denied = [{"OpIndex": 0, "What": "Permission denied: token with AccessorID 'x' lacks permission 'key:write'"}]
        consul = Consul((409, {"Results": None, "Errors": errors}, {}), (409, {"Errors": denied}, {}))
        async with asking(consul) as client:
            with pytest.raises(Conflict) as told:
                await client.txn([unchanged("x", 1), lock("x", b"", 0, "s")], operation="claim")
            assert told.value.errors == {1: "failed to lock key, lock is already held"}
            with pytest.raises(NotAllowed, match="key write"):
                await client.txn([lock("x", b"", 0, "s")], operation="claim")

    play(story())


@pytest.mark.parametrize("said", ["", "{", "[]", '{"Results": [{"KV": {}}]}', "7"])
def test_an_answer_that_no_consul_gives_is_an_unknown_outcome(said: str) -> None:
    async def story() -> None:
        async with asking(Consul((200, said, {}))) as client:
            with pytest.raises(OutcomeUnknown, match="is that a Consul"):
                await client.txn([put("x", b"")], operation="write")

    play(story())

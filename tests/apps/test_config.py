"""A configuration: editions are proposed on top of what was seen, and applied by a leader that nobody has succeeded."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from uuid import uuid4

import anyio
import pytest

import tenure
from tenure.apps.config import state as states
from tenure.apps.config.config import Config, Rejected
from tenure.apps.config.state import DEPTH_MAX, EDITION_BYTES_MAX, HISTORY_MAX, Edition, Outdated, State, parse
from tenure.errors import ConfigError, StaleToken
from tenure.model import Token
from tenure.stores.trail import VALUE_BYTES_MAX
from tenure.testing.engines import EtcdCluster, MariaDbCluster, PostgresCluster

CLUSTERS = {"etcd": EtcdCluster, "mariadb": MariaDbCluster, "postgresql": PostgresCluster}


# One cluster for all tests of this file that run on it, in one worker.
@pytest.fixture(
    scope="module",
    params=[
        "memory",
        "sqlite",
        *(pytest.param(name, marks=pytest.mark.xdist_group(f"{__name__} {name}")) for name in CLUSTERS),
    ],
)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A store of each kind that can compare a document and write it in one step of its own."""
    if request.param == "memory":
        yield "memory://"
    elif request.param == "sqlite":
        yield f"sqlite://{tmp_path_factory.mktemp('store')}/store.db"
    else:
        with CLUSTERS[request.param]() as cluster:
            yield cluster.url


@pytest.fixture
def name() -> str:
    """A configuration that nobody else has."""
    return f"limits-{uuid4().hex[:12]}"


@dataclass(frozen=True)
class Term:
    token: int
    fence: str = "store/config/limits"


def edition(value: object) -> Edition:
    return Edition(0, value, "ada", "then")


def test_of_two_proposals_at_once_one_wins_and_the_other_is_told_what_there_is(url: str, name: str) -> None:
    async def main() -> None:
        async with tenure.open_store(url) as store:
            config = Config(store, name)
            told = await asyncio.gather(*(config.propose({"rate": rate}) for rate in range(8)), return_exceptions=True)
            (won,) = [one for one in told if isinstance(one, Edition)]
            lost = [one for one in told if isinstance(one, Outdated)]
            assert len(lost) == 7
            assert [one.state.proposed for one in lost] == [won] * 7
            assert (await config.state()).proposed == won

    asyncio.run(main())


def test_what_was_seen_gives_way_and_what_was_not_stays(url: str, name: str) -> None:
    async def main() -> None:
        async with tenure.open_store(url) as store:
            config = Config(store, name)
            first = await config.propose(1)
            with pytest.raises(Outdated):
                await config.propose(2)  # on top of what is applied, which is nothing
            second = await config.propose(2, seen=first.version)
            state = await config.state()
            assert state.proposed == second
            assert state.withdrawn == {"1": "version 2 took its place"}

    asyncio.run(main())


def test_a_leader_that_was_succeeded_applies_nothing_whenever_its_write_arrives(url: str, name: str) -> None:
    async def main() -> None:
        async with tenure.open_store(url) as store:
            config = Config(store, name)
            old, new = Term(7), Term(8)
            proposal = await config.propose({"rate": 5})
            await config.seal(new.fence, Token(new.token))
            with pytest.raises(StaleToken):
                await config.apply(old, proposal.version)
            with pytest.raises(StaleToken):
                await config.reject(old, proposal.version, "no")
            with pytest.raises(StaleToken):
                await config.seal(old.fence, Token(old.token))
            assert (await config.apply(new, proposal.version)).token == 8
            assert (await config.apply(new, proposal.version)).token == 8  # Once more changes nothing.
            with pytest.raises(ConfigError, match="give each election a configuration of its own"):
                await config.apply(Term(9, "store/another"), proposal.version)

    asyncio.run(main())


def test_a_leader_that_was_succeeded_while_its_command_failed_withdraws_nothing(url: str, name: str) -> None:
    async def main() -> None:
        async with tenure.open_store(url) as store:
            config = Config(store, name)
            proposal = await config.propose({"rate": 5})

            async def carry_out(_: Edition) -> None:
                await config.seal(
                    Term(8).fence, Token(8)
                )  # The next one is in office by now, and carries it out as well.
                raise Rejected("no")

            with pytest.raises(StaleToken):
                async with asyncio.timeout(10):  # One that withdraws it goes on serving.
                    await config.serve(Term(7), carry_out)
            assert (await config.state()).proposed == proposal
            await config.withdraw(proposal.version)  # A person's word counts under any leader.
            assert (await config.state()).proposed is None

    asyncio.run(main())


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_leader_applies_what_is_proposed_and_withdraws_what_cannot_be_carried_out(
    backend: str, url: str, name: str
) -> None:
    done: list[object] = []
    tokens: list[int] = []

    async def carry_out(proposal: Edition) -> None:
        if proposal.value == "bad":
            raise Rejected("it is bad")
        done.append(proposal.value)

    async def main() -> None:
        async with tenure.open_store(url) as store, anyio.create_task_group() as tasks:
            config = Config(store, name)

            async def body(term: tenure.Tenure) -> None:
                tokens.append(term.token)
                await config.serve(term, carry_out, every=0.02)

            async def stand() -> None:
                await tenure.Election(store, f"config/{name}", ttl=3).lead(body, sinks=[config])

            tasks.start_soon(stand)
            state = State()
            for value in ("good", "bad", {"rate": 7}):
                proposal = await config.propose(value)
                async with aclosing(config.watch(0.02)) as looks:
                    async for state in looks:
                        if state.proposed is None:
                            break
                assert state.applied is not None
                assert state.applied.token in tokens
                assert (replace(state.applied, token=None) == proposal) is (value != "bad")
            assert state.withdrawn == {}
            tasks.cancel_scope.cancel()

    anyio.run(main, backend=backend)
    assert done == ["good", {"rate": 7}]


def test_to_roll_back_is_to_propose_an_old_content_under_a_new_number(url: str, name: str) -> None:
    async def main() -> None:
        async with tenure.open_store(url) as store:
            config, term = Config(store, name), Term(1)
            for value in ("one", "two", "three"):
                await config.apply(term, (await config.propose(value)).version)
            again = await config.roll_back(1)
            assert (again.version, again.value) == (4, "one")
            await config.apply(term, again.version)
            state = await config.state()
            assert [one.value for one in (*state.history, state.applied) if one] == ["one", "two", "three", "one"]
            with pytest.raises(ConfigError, match="is not kept: there are 1, 2, 3"):
                await config.roll_back(9)

    asyncio.run(main())


def test_a_number_is_never_given_twice_and_history_is_bounded_in_count_and_in_bytes() -> None:
    state = State()
    for number in range(HISTORY_MAX + 10):
        state = states.proposed("limits", state, edition("x" * (EDITION_BYTES_MAX - 2)), state.version)
        assert state.proposed is not None
        assert state.proposed.version == 2 * number + 1
        state = states.withdrawn("limits", state, state.proposed.version, "")
        state = states.proposed("limits", state, edition(number), state.version)
        state = states.applied("limits", state, 2 * number + 2, "f", 1)
    assert len(state.history) == HISTORY_MAX
    large = replace(state, history=tuple(edition("x" * (EDITION_BYTES_MAX - 2)) for _ in range(9)))
    text = states.dumped(large)
    assert len(text) <= VALUE_BYTES_MAX
    assert len(states.loaded("limits", text).history) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "is not JSON"),
        (b"{rate: 5}", "line 1, column 2: is not JSON"),
        (b'{"a": 1,}', "is not JSON"),
        (b"\xff\xfe\x00", "is not UTF-8"),
        (b'"\x80"', "is not UTF-8"),
        (b"[NaN]", "NaN: is no JSON"),
        (b'{"a": 1, "a": 2}', "'a': stands twice"),
        (b"[" * 100_000, "too deep"),
        (b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1), f"too deep: may have at most {DEPTH_MAX} levels"),
        (b"[" + b"9" * 5000 + b"]", "a number: may have at most 4300 digits"),
        (json.dumps("x" * EDITION_BYTES_MAX).encode(), f"must have at most {EDITION_BYTES_MAX}"),
    ],
)
def test_what_is_no_clear_json_is_refused_in_one_line(text: bytes, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(text, "document x.json")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_as_deep_as_may_be_is_kept_and_what_holds_itself_is_refused() -> None:
    deepest: list[object] = []
    for _ in range(DEPTH_MAX - 1):
        deepest = [deepest]
    endless: list[object] = []
    endless += [endless, endless]

    async def main() -> None:
        async with tenure.open_store("memory://") as store:
            config = Config(store, "limits")
            assert (await config.propose(deepest)).value == deepest
            for value in ([deepest], endless):
                with pytest.raises(ConfigError, match="too deep"):
                    await config.propose(value, seen=1)

    asyncio.run(main())


def test_the_depth_of_what_is_kept_keeps_nobody_from_sealing() -> None:
    deep = b"[" * 600 + b"]" * 600  # as an earlier release would have taken it
    text = states.dumped(State(proposed=Edition(1, None, "ada", "then"))).replace(b'"value":null', b'"value":' + deep)
    state = states.loaded("limits", text)
    assert states.loaded("limits", states.dumped(states.sealed("limits", state, "f", 1))).proposed == state.proposed


def test_what_somebody_else_keeps_there_is_not_taken_for_a_configuration(url: str, name: str) -> None:
    async def main() -> None:
        async with tenure.open_store(url) as store:
            config = Config(store, name)
            for text in (b"[]", b"{}", b'{"applied": 7}', b"\xff"):
                await store.update(config.key, lambda _, text=text: text)  # type: ignore[misc]
                with pytest.raises(ConfigError, match="does not know"):
                    await config.propose(1, seen=0)

    asyncio.run(main())

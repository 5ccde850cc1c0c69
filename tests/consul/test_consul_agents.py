"""Client agents, such as the one of each machine that documents say to name: killed, restarted and taken out of the cluster.

A session belongs to the node of the agent that it was made by. Whether it outlives that agent is what these tests are about.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import tenure
from tenure.errors import ConfigError, Reason
from tenure.testing.engines import ConsulCluster, Node, Tls
from tests.consul.consul_faults import lock_by_hand, member_of, pair_of, session_lives, stands_by
from tests.etcd.etcd_faults import TTL_S, Candidate, now_ns, play, until, until_so

# Long enough for an agent to be away, on a machine that has other work; nobody waits for its end.
LONG_S = 30.0
STAYS = "-hcl=leave_on_terminate = false"
LEAST_RIGHTS = """
key_prefix "left" { policy = "write" }
key ".tenure-identity" { policy = "write" }
session_prefix "" { policy = "write" }
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[ConsulCluster]:
    with ConsulCluster(session_ttl_min_s=1, agent_count=2) as running:
        yield running


@pytest.fixture
def cluster(shared: ConsulCluster) -> Iterator[ConsulCluster]:
    """Three servers and two client agents. A test may leave them in any state."""
    yield shared
    shared.mend()


def url_of(*agents: Node, lock_delay_s: float = 0) -> str:
    return f"consul://{','.join(agent.endpoint for agent in agents)}?lock_delay={lock_delay_s:g}"


def sessions_of(cluster: ConsulCluster, agent: Node) -> set[str]:
    told = json.loads(cluster.api("GET", f"/v1/session/node/{agent.name}?consistent"))
    return {session["ID"] for session in told}


def session_by_hand(cluster: ConsulCluster, agent: Node, *, checks: bool) -> str:
    """Make a session that ends after 1200 s by its time; with ``checks`` also when the node fails Consul's own."""
    body = {"Name": "by hand", "TTL": "600s", **({} if checks else {"Checks": [], "NodeChecks": []})}
    return str(json.loads(cluster.api("PUT", "/v1/session/create", body, node=agent))["ID"])


async def have_ended(cluster: ConsulCluster, sessions: set[str]) -> bool:
    return not any([await asyncio.to_thread(session_lives, cluster, session) for session in sessions])


def check_restart(cluster: ConsulCluster, fate: str) -> None:
    """Have a leader and a standby whose only agent goes and comes back, and see that both have lost nothing."""
    agent = cluster.agents[0]

    async def story() -> None:
        async with (
            tenure.open_store(url_of(agent)) as store,
            tenure.open_store(url_of(agent)) as other,
            AsyncExitStack() as leaves,
        ):
            ada = await leaves.enter_async_context(Candidate(store, f"restart/{fate}", ttl_s=LONG_S))
            term = await ada.leads()
            async with Candidate(other, f"restart/{fate}", ttl_s=LONG_S) as bob:
                await stands_by(other, bob)
                sessions = sessions_of(cluster, agent)
                assert len(sessions) == 2
                await asyncio.to_thread(agent.kill if fate == "killed" else agent.stop)
                await asyncio.to_thread(agent.start)
                await ada.renews(now_ns())
                assert sessions_of(cluster, agent) == sessions
                assert bob.tokens == []
                await leaves.aclose()
                assert (await bob.leads()).token > term.token
                assert pair_of(cluster, f"restart/{fate}")["Session"] in sessions

    play(story())


def test_a_leader_and_a_standby_outlive_a_restart_of_their_only_agent_that_was_killed(cluster: ConsulCluster) -> None:
    check_restart(cluster, "killed")


def test_they_outlive_one_that_was_stopped_if_its_settings_say_that_it_does_not_leave() -> None:
    with ConsulCluster(size=1, session_ttl_min_s=1, agent_count=1, options=[STAYS]) as cluster:
        check_restart(cluster, "stopped")


def test_an_only_agent_that_leaves_ends_the_sessions_of_its_node_at_once_and_both_stand_again_through_it(
    cluster: ConsulCluster,
) -> None:
    agent = cluster.agents[0]
    # Longer than a tenure lasts by its holder's own clock: nobody else leads meanwhile.
    url = url_of(agent, lock_delay_s=TTL_S + 2)

    async def story() -> None:
        async with (
            tenure.open_store(url) as store,
            tenure.open_store(url) as other,
            Candidate(store, "left") as ada,
        ):
            term = await ada.leads()
            async with Candidate(other, "left") as bob:
                await stands_by(other, bob)
                kept = await asyncio.to_thread(lock_by_hand, cluster, "left/by-a-server")
                by_hand = await asyncio.to_thread(session_by_hand, cluster, agent, checks=False)
                sessions = sessions_of(cluster, agent)
                assert len(sessions - {by_hand}) == 2
                await asyncio.to_thread(agent.stop)
                await until_so(lambda: have_ended(cluster, sessions))  # One of them has twenty minutes left.
                assert session_lives(cluster, kept)
                await asyncio.to_thread(agent.start)
                await until(lambda: len(ada.tokens) + len(bob.tokens) > 1)
                # By whether it was told before its agent was gone, and how long that took.
                assert len(ada.left) == 1
                assert ada.left[0].reason in {Reason.DEPOSED, Reason.STORE_GONE, Reason.LAPSED}
                first, second = ada.tokens + bob.tokens
                assert second > first == term.token
                await (stands_by(other, bob) if len(ada.tokens) > 1 else stands_by(store, ada))

    play(story())


def check_leaving(cluster: ConsulCluster, url: str) -> None:
    """Have the agent of a leader leave the cluster, and see that it leads again through the other one while that is gone."""

    async def story() -> None:
        async with tenure.open_store(url) as store, Candidate(store, "left-for-another", ttl_s=LONG_S) as ada:
            await ada.leads()
            agent = member_of(store, cluster)
            sessions = sessions_of(cluster, agent)
            assert len(sessions) == 1
            await asyncio.to_thread(agent.stop)
            await until_so(lambda: have_ended(cluster, sessions))
            await until(lambda: len(ada.tokens) > 1)  # Its agent is still gone.
            assert [fact.reason for fact in ada.left] == [Reason.DEPOSED]
            assert ada.tokens[1] > ada.tokens[0]

    play(story())


def test_a_leader_whose_agent_leaves_leads_again_through_the_other_one_in_its_url(cluster: ConsulCluster) -> None:
    check_leaving(cluster, url_of(*cluster.agents))


def test_so_does_one_whose_agents_want_a_token_and_a_certificate(tmp_path: Path) -> None:
    tls, token = Tls(tmp_path, clients_need_certificates=True), tmp_path / "token"
    with ConsulCluster(size=1, session_ttl_min_s=1, agent_count=2, acl=True, tls=tls) as cluster:
        token.write_text(cluster.token(LEAST_RIGHTS))
        shown = f"ca={tls.ca}&cert={tls.client.certificate}&key={tls.client.key}&token_file={token}"
        check_leaving(cluster, f"{url_of(*cluster.agents).replace('consul:', 'consuls:')}&{shown}")


def test_a_tenure_outlives_an_agent_that_dies_where_a_session_with_a_health_check_does_not(
    cluster: ConsulCluster,
) -> None:
    async def story() -> None:
        async with (
            tenure.open_store(url_of(*cluster.agents)) as store,
            Candidate(store, "died-for-another", ttl_s=LONG_S) as ada,
        ):
            await ada.leads()
            agent = member_of(store, cluster)
            checked = await asyncio.to_thread(session_by_hand, cluster, agent, checks=True)
            session = pair_of(cluster, "died-for-another")["Session"]
            assert sessions_of(cluster, agent) == {session, checked}
            await asyncio.to_thread(agent.kill)
            await until_so(lambda: have_ended(cluster, {checked}))  # It has twenty minutes left as well.
            await ada.renews(now_ns())
            assert sessions_of(cluster, agent) == {session}

    play(story())


def test_a_leader_whose_only_agent_dies_lapses_in_time_and_only_then_is_succeeded_through_another(
    cluster: ConsulCluster,
) -> None:
    agent, elsewhere = cluster.agents

    async def story() -> None:
        async with (
            tenure.open_store(url_of(agent)) as store,
            tenure.open_store(url_of(elsewhere)) as other,
            Candidate(store, "died") as ada,
        ):
            term = await ada.leads()
            async with Candidate(other, "died") as bob:
                await stands_by(other, bob)
                await asyncio.to_thread(agent.kill)
                killed_at = now_ns()
                next_term = await bob.leads()
                led_at = now_ns()
                # Its session is ended by its time alone, which is twice what its holder counts on.
                assert term._term.valid_until < killed_at + TTL_S * 1e9
                assert term._term.valid_until < led_at
                assert not term.valid
                assert [fact.reason for fact in ada.left] in ([Reason.STORE_GONE], [Reason.LAPSED])
                assert next_term.token > term.token

    play(story())


def test_client_agents_cannot_have_networks_of_their_own() -> None:
    with pytest.raises(ConfigError, match="only the servers of one cluster"):
        ConsulCluster(isolated=True, agent_count=1)

"""What people do to an election with ``consul``, and what others may have written at its key."""

import asyncio
import json
import time
from dataclasses import replace

import pytest

import tenure
from tenure.errors import OutcomeUnknown, Reason, Refused, Unreachable
from tenure.model import Ended, Grant, Holder, Token, Wait
from tenure.sinks import ConsulSink
from tenure.stores.base import ElectionStatus
from tenure.stores.consul import from_url
from tenure.stores.consul.layout import LOCK_FLAG
from tenure.testing.engines import ConsulCluster
from tests.consul.consul_faults import lock_by_hand, pair_of
from tests.etcd.etcd_faults import Candidate, bid_of, play, until, until_so

SEMAPHORE_FLAG = 0xE0F69A2BAA414DE0


async def api(cluster: ConsulCluster, method: str, path: str, body: object = None) -> str:
    return await asyncio.to_thread(cluster.api, method, path, body)


@pytest.mark.parametrize("what", ["session", "key", "lock"])
def test_a_leader_whose_session_key_or_lock_is_taken_is_deposed_and_leads_again(
    cluster: ConsulCluster, what: str
) -> None:
    async def story() -> None:
        name = f"taken/{what}"
        async with tenure.open_store(f"{cluster.url}?lock_delay=0") as store, Candidate(store, name) as ada:
            await ada.leads()
            pair = pair_of(cluster, name)
            if what == "session":
                await api(cluster, "PUT", f"/v1/session/destroy/{pair['Session']}")
            elif what == "key":
                await api(cluster, "DELETE", f"/v1/kv/{name}/.lock")
            else:
                await api(cluster, "PUT", f"/v1/kv/{name}/.lock?release={pair['Session']}&flags={LOCK_FLAG}")
            await until(lambda: len(ada.tokens) == 2)
            assert [fact.reason for fact in ada.left] == [Reason.DEPOSED]
            assert ada.tokens[1] > ada.tokens[0] == pair["ModifyIndex"]

    play(story())


def test_a_destroyed_session_ends_every_tenure_that_it_carries_and_no_other(cluster: ConsulCluster) -> None:
    async def story() -> None:
        async with from_url(cluster.url, lock_delay="0") as store, from_url(cluster.url) as other:
            grants = [await store.claim(bid_of(f"carried/{name}")) for name in "abc"]
            kept = await other.claim(bid_of("carried/d"))
            assert isinstance(kept, Grant)
            sessions = {pair_of(cluster, f"carried/{name}")["Session"] for name in "abc"}
            assert len(sessions) == 1
            await api(cluster, "PUT", f"/v1/session/destroy/{sessions.pop()}")
            held = [grant for grant in grants if isinstance(grant, Grant)]
            assert await store.renew_together(held) == [Ended(grant.bid, grant.token) for grant in held]
            assert await other.renew(kept) == kept
            again = await store.claim(held[0].bid)
            assert isinstance(again, Grant)
            assert again.token > held[0].token

    play(story())


def test_a_value_that_is_written_over_by_hand_ends_nothing_and_is_put_back(cluster: ConsulCluster) -> None:
    async def story() -> None:
        async with from_url(cluster.url) as store, from_url(cluster.url) as other:
            grant = await store.claim(bid_of("written-over"))
            assert isinstance(grant, Grant)
            await asyncio.to_thread(cluster.ctl, "kv", "put", f"-flags={LOCK_FLAG}", "written-over/.lock", "mine now")
            assert await store.renew(grant) == grant
            incumbent = await other.read("written-over")
            assert incumbent is not None
            assert (incumbent.holder, incumbent.token) == (grant.bid.holder, grant.token)
            assert await store.renew(grant) == grant
            assert await store.claim(grant.bid) == grant

    play(story())


def test_flags_that_are_left_out_by_hand_are_put_back_so_that_it_stays_a_lock(cluster: ConsulCluster) -> None:
    async def story() -> None:
        async with from_url(cluster.url) as store, from_url(cluster.url) as other:
            grant = await store.claim(bid_of("flags"))
            assert isinstance(grant, Grant)
            same = pair_of(cluster, "flags")["Value"]
            await asyncio.to_thread(cluster.ctl, "kv", "put", "flags/.lock", same)
            with pytest.raises(Refused, match="no lock"):
                await other.read("flags")
            assert await store.renew(grant) == grant
            incumbent = await other.read("flags")
            assert incumbent is not None
            assert incumbent.token == grant.token

    play(story())


def test_a_word_to_resign_reaches_the_leader_and_its_token_stays_what_it_was(cluster: ConsulCluster) -> None:
    async def story() -> None:
        async with from_url(cluster.url) as store, from_url(cluster.url) as other:
            grant = await store.claim(bid_of("asked"))
            assert isinstance(grant, Grant)
            assert await other.ask_to_resign("asked nobody") is None
            told = await other.ask_to_resign("asked")
            assert told is not None
            assert told.token == grant.token
            assert not store.resign_asked(grant)
            assert await store.renew(grant) == grant
            assert store.resign_asked(grant)
            assert await store.proclaim(grant, "elsewhere:1") == grant
            listed = [status for status in await other.elections() if status.election == "asked"]
            assert listed == [ElectionStatus("asked", replace(told, advertised="elsewhere:1"), None, None, True, ())]
            await store.release(grant.bid)
            (listed,) = ([status for status in await other.elections() if status.election == "asked"],)
            assert listed[0].incumbent is None
            assert not listed[0].resign_asked
            # It was said to that tenure, and not to the next one.
            second = await store.claim(replace(grant.bid, serial=2))
            assert isinstance(second, Grant)
            assert await store.renew(second) == second
            assert not store.resign_asked(second)

    play(story())


def test_a_lock_of_another_program_is_waited_for_and_shown_as_a_stranger(cluster: ConsulCluster) -> None:
    async def story() -> None:
        session = await asyncio.to_thread(lock_by_hand, cluster, "foreign")
        async with from_url(cluster.url) as store:
            wait = await store.claim(bid_of("foreign"))
            assert isinstance(wait, Wait)
            assert wait.incumbent is not None
            assert wait.incumbent.holder == Holder("unnamed", 0, session)
            assert wait.incumbent.token == pair_of(cluster, "foreign")["ModifyIndex"]
            with pytest.raises(Refused, match="no tenure program"):
                await store.ask_to_resign("foreign")
            woken = asyncio.create_task(store.changed(wait))
            await api(cluster, "PUT", f"/v1/session/destroy/{session}")
            await woken
            grant = await store.claim(wait.bid)
            assert isinstance(grant, Grant)
            assert grant.token > wait.incumbent.token

    play(story())


@pytest.mark.parametrize(("flags", "words"), [(SEMAPHORE_FLAG, "is a semaphore"), (0, "is no lock"), (7, "is no lock")])
def test_a_key_that_is_no_lock_is_refused_and_left_alone(cluster: ConsulCluster, flags: int, words: str) -> None:
    name = f"no-lock-{flags}"
    cluster.ctl("kv", "put", f"-flags={flags}", f"{name}/.lock", "precious")

    async def story() -> None:
        async with from_url(cluster.url) as store:
            with pytest.raises(Refused, match=rf"{words}.*use another name, or delete it"):
                await store.claim(bid_of(name))
            with pytest.raises(Refused, match=words):
                await store.read(name)

    play(story())
    assert (pair_of(cluster, name)["Value"], pair_of(cluster, name)["Flags"]) == ("precious", flags)


def test_a_lock_delay_keeps_an_office_empty_after_an_invalidation_and_not_after_a_release(
    cluster: ConsulCluster,
) -> None:
    async def story() -> None:
        async with from_url(cluster.url, lock_delay="3") as store, from_url(cluster.url, lock_delay="3") as other:
            first = await store.claim(bid_of("delayed"))
            assert isinstance(first, Grant)
            await store.release(first.bid)
            second = await other.claim(bid_of("delayed"))
            assert isinstance(second, Grant)
            wait = await store.claim(bid_of("delayed"))
            assert isinstance(wait, Wait)
            began_s = time.monotonic()
            await api(cluster, "PUT", f"/v1/session/destroy/{pair_of(cluster, 'delayed')['Session']}")
            answer: Grant | Wait = wait
            claim_count = 0
            while isinstance(answer, Wait):
                await store.changed(answer)
                answer = await store.claim(wait.bid)
                claim_count += 1
            assert time.monotonic() - began_s >= 3
            # One that was woken by the end of the session, and two in every second after that.
            assert claim_count <= 3 / 0.3 + 2
            assert answer.token > second.token

    play(story())


def test_the_office_of_a_dead_holder_is_free_after_two_ttl_and_its_lock_delay_as_the_traits_say(
    cluster: ConsulCluster,
) -> None:
    async def story() -> None:
        async with from_url(cluster.url, lock_delay="1") as store:
            traits = store.traits
            assert (traits.expiry_slack_ns, traits.slack_ns(2 * 10**9)) == (2 * 10**9, 4 * 10**9)
            began_s = time.monotonic()
            await asyncio.to_thread(lock_by_hand, cluster, "dead", ttl="2s", delay="1s")
            locked_s = time.monotonic()
            answer = await store.claim(bid_of("dead"))
            while isinstance(answer, Wait):
                await store.changed(answer)
                answer = await store.claim(answer.bid)
            taken_s = time.monotonic()
            assert taken_s - began_s >= 2 * 2 + 1
            # Patience, not a measure: what the traits say is 6 s.
            assert taken_s - locked_s < 20

    play(story())


@pytest.mark.parametrize(("fenced", "delay_ns"), [(True, 0), (False, 15 * 10**9)])
def test_a_session_has_a_short_lock_delay_only_with_a_fence_and_never_a_health_check(
    cluster: ConsulCluster, fenced: bool, delay_ns: int
) -> None:
    async def story() -> None:
        async with from_url(cluster.url) as store:
            grant = await store.claim(replace(bid_of(f"fenced/{fenced}", ttl_s=7), fenced=fenced))
            assert isinstance(grant, Grant)
            session = pair_of(cluster, f"fenced/{fenced}")["Session"]
            (told,) = json.loads(await api(cluster, "GET", f"/v1/session/info/{session}"))
            assert (told["LockDelay"], told["Behavior"], told["TTL"]) == (delay_ns, "release", "7000ms")
            assert not told["NodeChecks"]
            assert not told["ServiceChecks"]
            await store.release(grant.bid)
        # Whoever leaves in order takes its sessions along.
        assert json.loads(await api(cluster, "GET", f"/v1/session/info/{session}")) == []

    play(story())


def test_an_election_with_declared_sinks_has_the_short_lock_delay(cluster: ConsulCluster) -> None:
    async def story() -> None:
        async with ConsulSink(cluster.url) as sink, tenure.open_store(cluster.url) as store:
            delays_s = {}
            for name, sinks in (("sinks/with", (sink,)), ("sinks/without", ())):
                async with Candidate(store, name, sinks=sinks) as ada:
                    await ada.leads()
                    session = pair_of(cluster, name)["Session"]
                    (told,) = json.loads(await api(cluster, "GET", f"/v1/session/info/{session}"))
                    delays_s[name] = told["LockDelay"] / 1e9
            assert delays_s == {"sinks/with": 0, "sinks/without": 15}

    play(story())


@pytest.mark.parametrize("name", ["a b", "50%", "what?#&=+", "é😀", "x/y.z/;w", "~!@$^*()'\""])
def test_odd_names_are_the_names_that_consul_has(cluster: ConsulCluster, name: str) -> None:
    async def story() -> None:
        async with from_url(cluster.url) as store, from_url(cluster.url) as other:
            grant = await store.claim(bid_of(f"odd/{name}"))
            assert isinstance(grant, Grant)
            keys = json.loads(await api(cluster, "GET", "/v1/kv/odd/?keys"))
            assert f"odd/{name}/.lock" in keys
            wait = await other.claim(bid_of(f"odd/{name}"))
            assert isinstance(wait, Wait)
            woken = asyncio.create_task(other.changed(wait))
            await store.release(grant.bid)
            await woken
            assert isinstance(await other.claim(wait.bid), Grant)

    play(story())


@pytest.mark.parametrize(
    "name", ["/x", "x/", "a//b", "a/../b", "./x", ".", "%2e%2e", "a%2F..%2Fb", "a\tb", "\u2028", "\ud800"]
)
def test_names_of_which_consul_makes_other_ones_or_none_are_refused(cluster: ConsulCluster, name: str) -> None:
    async def story() -> None:
        async with from_url(cluster.url) as store:
            with pytest.raises(Refused, match="use another"):
                await store.claim(bid_of(name))

    play(story())


def test_a_prefix_in_the_url_is_a_part_of_the_name(cluster: ConsulCluster) -> None:
    async def story() -> None:
        async with from_url(f"{cluster.url}/app") as store, from_url(cluster.url) as other:
            grant = await store.claim(bid_of("x"))
            assert isinstance(grant, Grant)
            incumbent = await other.read("app/x")
            assert incumbent is not None
            assert incumbent.token == Token(grant.token)
            assert [status.election for status in await store.elections()] == ["x"]

    play(story())


def test_a_holder_that_stops_renewing_loses_the_office_although_its_session_lives_on(cluster: ConsulCluster) -> None:
    async def story() -> None:
        async with from_url(cluster.url) as store, from_url(cluster.url) as other:
            idle = await store.claim(bid_of("idle"))
            kept = await store.claim(bid_of("kept"))
            assert isinstance(idle, Grant)
            assert isinstance(kept, Grant)

            async def free() -> bool:
                try:
                    assert await store.renew(kept) == kept
                    return await other.read("idle") is None
                except (Unreachable, OutcomeUnknown):  # Nothing was said: not yet.
                    return False

            await until_so(free)
            assert pair_of(cluster, "idle")["Session"] == ""
            assert await store.renew(idle) == Ended(idle.bid, idle.token)

    play(story())


def test_a_ttl_below_the_engines_minimum_is_refused_in_one_line_that_names_it(cluster: ConsulCluster) -> None:
    async def story() -> None:
        async with from_url(cluster.url) as store:
            assert store.traits.ttl_min_ns == 10**9  # As this cluster was told.
            with pytest.raises(Refused, match=r"a ttl of 0.5 s is not between 1 s and .*session_ttl_min") as told:
                await store.claim(bid_of("short", ttl_s=0.5))
            assert "\n" not in str(told.value)

    play(story())


def test_what_is_renewed_is_not_written_down_so_many_elections_cost_little(cluster: ConsulCluster) -> None:
    async def story() -> None:
        async with from_url(cluster.url) as store:
            answers = [await store.claim(bid_of(f"many/{number}", ttl_s=60)) for number in range(150)]
            grants = [answer for answer in answers if isinstance(answer, Grant)]
            assert len(grants) == 150
            assert len({pair_of(cluster, f"many/{number}")["Session"] for number in (0, 75, 149)}) == 1
            before = await store.claim(bid_of("many/before", ttl_s=60))
            for _ in range(30):  # Four requests each.
                assert await store.renew_together(grants) == grants
            after = await store.claim(bid_of("many/after", ttl_s=60))
            assert isinstance(before, Grant)
            assert isinstance(after, Grant)
            # The servers write down a little of their own now and then.
            assert after.token - before.token < 50

    play(story())

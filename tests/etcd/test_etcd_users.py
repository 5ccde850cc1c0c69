"""Users, passwords, and tokens that grow old while somebody leads or waits."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import tenure
from tenure.errors import Refused
from tenure.model import Grant, Token, Wait
from tenure.sinks import EtcdSink, fences_of, lower_fence
from tenure.stores.etcd import from_url
from tenure.testing.engines import Binary, EtcdCluster, Tls
from tests.etcd.etcd_faults import Candidate, bid_of, now_ns, play, store_of, until

TOKEN_TTL_S = 1
_PASSWORD = "open-sesame"
# A role for each user: what it may write to and read, from the first key to below the last.
_RIGHTS = {
    "ada": ("guarded/", "guarded0"),
    "eve": ("elsewhere/", "elsewhere0"),
    "lea": ("tenure/fence/", "tenure/fence0"),
}


@pytest.fixture(scope="module")
def guarded() -> Iterator[EtcdCluster]:
    """A cluster with users, whose tokens are forgotten after a second without a call."""
    with EtcdCluster(options=(f"--auth-token-ttl={TOKEN_TTL_S}",)) as cluster:
        for user, (first, end) in _RIGHTS.items():
            cluster.ctl("role", "add", user)
            cluster.ctl("role", "grant-permission", user, "readwrite", first, end)
            cluster.ctl("user", "add", f"{user}:{_PASSWORD}")
            cluster.ctl("user", "grant-role", user, user)
        cluster.ctl("user", "add", f"root:{_PASSWORD}")
        cluster.ctl("user", "grant-role", "root", "root")
        cluster.ctl("auth", "enable")
        yield cluster


def url_of(cluster: EtcdCluster, user: str, password: str = _PASSWORD) -> str:
    return cluster.url.replace("://", f"://{user}:{password}@")


def test_a_standby_waits_for_longer_than_its_token_lives_and_leads_all_the_same(guarded: EtcdCluster) -> None:
    async def story() -> None:
        url = url_of(guarded, "ada")
        async with (
            tenure.open_store(url) as one,
            tenure.open_store(url) as two,
            AsyncExitStack() as leaves,
        ):
            led = [await leaves.enter_async_context(Candidate(one, f"guarded/{name}", ttl_s=60)) for name in "xy"]
            for ada in led:
                await ada.leads()
            async with Candidate(two, "guarded/x", ttl_s=60) as bob:
                # Neither asks for anything meanwhile: with such a ttl the first renewal is a quarter of a minute away.
                await asyncio.sleep(4 * TOKEN_TTL_S)
                # A new watch on a stream whose token has expired is cancelled by etcd, and the stream left open.
                async with Candidate(two, "guarded/y", ttl_s=60) as cyd:
                    await until(lambda: len(store_of(two)._client._watches._armed) == 2)
                    await leaves.aclose()
                    assert (await bob.leads()).token > led[0].tokens[0]
                    assert (await cyd.leads()).token > led[1].tokens[0]

    play(story())


def test_renewals_go_on_when_the_token_has_expired_between_them(guarded: EtcdCluster) -> None:
    async def story() -> None:
        # A heartbeat is longer than a token lives, so each renewal finds that its token has expired.
        async with (
            tenure.open_store(url_of(guarded, "ada")) as store,
            Candidate(store, "guarded/renewed", ttl_s=12 * TOKEN_TTL_S) as ada,
        ):
            term = await ada.leads()
            await ada.renews(now_ns())
            await ada.renews(now_ns())
            assert ada.tokens == [term.token]

    play(story())


def test_a_user_without_rights_is_told_which_to_ask_for_and_never_its_password(guarded: EtcdCluster) -> None:
    async def story() -> None:
        async with from_url(url_of(guarded, "eve")) as store:
            with pytest.raises(Refused, match=r"permission denied.*grant the user's role readwrite") as told:
                await store.claim(bid_of("guarded/x"))
            assert _PASSWORD not in str(told.value)
            assert "\n" not in str(told.value)
            with pytest.raises(Refused, match="permission denied"):
                await store.read("guarded/x")
        with pytest.raises(Refused, match="name or password is wrong"):
            async with from_url(url_of(guarded, "ada", "wrong")):
                pytest.fail("it opened")
        with pytest.raises(Refused, match="into the URL"):
            async with from_url(guarded.url) as store:
                await store.claim(bid_of("guarded/x"))

    play(story())


def test_a_tenure_outlives_a_change_of_its_users_rights_and_is_refused_when_it_has_none(guarded: EtcdCluster) -> None:
    async def story() -> None:
        root = f"--user=root:{_PASSWORD}"
        async with tenure.open_store(url_of(guarded, "ada")) as store, Candidate(store, "guarded/changed") as ada:
            await ada.leads()
            await asyncio.to_thread(guarded.ctl, root, "role", "grant-permission", "eve", "read", "nothing")
            await ada.renews(now_ns())
            await asyncio.to_thread(guarded.ctl, root, "role", "revoke-permission", "ada", *_RIGHTS["ada"])
            try:
                bid = bid_of("guarded/changed too")
                with pytest.raises(Refused, match="permission denied"):
                    await asyncio.wrap_future(ada.election.desk.office.submit(store_of(store).claim(bid)))
            finally:
                rights = ("readwrite", *_RIGHTS["ada"])
                await asyncio.to_thread(guarded.ctl, root, "role", "grant-permission", "ada", *rights)
            await ada.renews(now_ns())

    play(story())


def test_an_election_is_held_by_a_user_that_only_its_certificate_names(
    tmp_path: Path, etcd_binary: Binary | None
) -> None:
    tls = Tls(tmp_path, clients_need_certificates=True)

    async def story(cluster: EtcdCluster) -> None:
        ada = tls.issue("ada")
        url = f"{cluster.url}?ca={tls.ca}&cert={ada.certificate}&key={ada.key}"
        async with from_url(url) as one, from_url(url) as two:
            grant = await one.claim(bid_of("books/x"))
            assert isinstance(grant, Grant)
            assert await one.renew(grant) == grant
            wait = await two.claim(bid_of("books/x"))
            assert isinstance(wait, Wait)
            waiting = asyncio.create_task(two.changed(wait))
            await until(lambda: len(two._client._watches._armed) == 1)
            # Whose certificate it is has no token that a change of the users could make old.
            await asyncio.to_thread(cluster.ctl, "role", "add", "another")
            assert await one.renew(grant) == grant
            await one.release(grant.bid)
            await waiting
            won = await two.claim(wait.bid)
            assert isinstance(won, Grant)
            assert won.token > grant.token
            with pytest.raises(Refused, match=r"permission denied.*grant the user's role readwrite"):
                await two.claim(bid_of("elsewhere/x"))

    with EtcdCluster(1, binary=etcd_binary, tls=tls) as cluster:
        for user in ("root", "ada"):
            cluster.ctl("user", "add", user, "--no-password")
        cluster.ctl("user", "grant-role", "root", "root")
        cluster.ctl("role", "add", "books")
        cluster.ctl("role", "grant-permission", "books", "--prefix=true", "readwrite", "books/")
        cluster.ctl("user", "grant-role", "ada", "books")
        cluster.ctl("auth", "enable")
        play(story(cluster))


def test_who_may_write_fences_and_not_the_record_of_repairs_lowers_none(guarded: EtcdCluster) -> None:
    async def poison() -> None:
        async with EtcdSink(url_of(guarded, "lea")) as sink:
            await sink.seal("books", Token(99))

    asyncio.run(poison())
    with pytest.raises(Refused, match="permission denied") as told:
        lower_fence(url_of(guarded, "lea"), "books", was=99, to=7, why="forged")
    assert _PASSWORD not in str(told.value)
    assert fences_of(url_of(guarded, "root")) == ({"books": 99}, ())
    repair = lower_fence(url_of(guarded, "root"), "books", was=99, to=7, why="forged")
    assert fences_of(url_of(guarded, "root")) == ({"books": 7}, (repair,))

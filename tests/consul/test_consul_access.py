"""Tokens, rights and certificates, and what becomes of a tenure when they change."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import tenure
from tenure.errors import ConfigError, OutcomeUnknown, Reason, Refused, StoreError, Unreachable
from tenure.model import Grant, Token
from tenure.sinks import ConsulSink, fences_of, lower_fence
from tenure.stores.consul import from_url
from tenure.testing.engines import ConsulCluster, Tls
from tests.consul.consul_faults import store_of
from tests.etcd.etcd_faults import Candidate, bid_of, now_ns, play, until, until_so

# What docs/how-to/use-consul.md says that a candidate needs, and not more.
LEAST = """
key_prefix "billing/" { policy = "write" }
key ".tenure-identity" { policy = "write" }
session_prefix "" { policy = "write" }
"""
READER = 'key_prefix "billing/" { policy = "read" }'


@pytest.fixture(scope="module")
def guarded() -> Iterator[ConsulCluster]:
    """A cluster that asks for tokens, and does not remember for long which ones are good."""
    options = ['-hcl=acl { token_ttl = "0s" policy_ttl = "0s" role_ttl = "0s" }']
    with ConsulCluster(acl=True, session_ttl_min_s=1, options=options) as cluster:
        yield cluster


def with_token(cluster: ConsulCluster, token: str) -> str:
    return cluster.url.replace("://", f"://{token}@")


def test_the_least_rights_that_the_documents_name_are_enough_to_lead(guarded: ConsulCluster) -> None:
    token = guarded.token(LEAST)

    async def story() -> None:
        async with tenure.open_store(with_token(guarded, token)) as store, Candidate(store, "billing/close") as ada:
            await ada.leads()
            await ada.renews(now_ns())
        async with from_url(with_token(guarded, token)) as other:
            assert other.traits.ttl_min_ns == 10**9
            with pytest.raises(Refused, match=r"lacks permission.*other/.lock"):
                await other.claim(bid_of("other"))

    play(story())


def test_who_may_only_read_can_look_and_is_told_what_is_missing_to_stand(guarded: ConsulCluster) -> None:
    token = guarded.token(READER)

    async def story() -> None:
        async with from_url(with_token(guarded, token)) as store:
            assert await store.read("billing/nobody") is None
            with pytest.raises(Refused, match=r"Permission denied.*have the token's policy grant it") as told:
                await store.claim(bid_of("billing/x"))
            assert token not in str(told.value)
            with pytest.raises(Refused, match=r"\.tenure-identity must be read, and written once"):
                _ = store.identity

    play(story())


@pytest.mark.parametrize("token", ["", "00000000-0000-0000-0000-00000000dead"], ids=["no token", "an unknown token"])
def test_a_missing_and_an_unknown_token_are_told_apart_and_not_shown(guarded: ConsulCluster, token: str) -> None:
    async def story() -> None:
        url = with_token(guarded, token) if token else guarded.url
        with pytest.raises(StoreError) as told:
            async with from_url(url) as store:
                await store.claim(bid_of("billing/x"))
        assert isinstance(told.value, Refused)
        advice = "the server does not know our token" if token else "give a token, by CONSUL_HTTP_TOKEN, token_file="
        assert advice in str(told.value)
        assert "dead" not in str(told.value)
        assert "\n" not in str(told.value)

    play(story())


def test_a_token_comes_from_the_url_a_file_or_the_environment(
    guarded: ConsulCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = guarded.token(LEAST)
    file = tmp_path / "token"
    file.write_text(f"{token}\n")

    async def leads(url: str, **options: str) -> None:
        async with from_url(url, **options) as store:
            grant = await store.claim(bid_of(f"billing/from/{len(options)}"))
            assert isinstance(grant, Grant)
            await store.release(grant.bid)

    play(leads(with_token(guarded, token)))
    play(leads(guarded.url.replace("://", f"://:{token}@")))
    play(leads(guarded.url, token_file=str(file)))
    play(leads(f"{guarded.url}?token_file={file}"))
    monkeypatch.setenv("CONSUL_HTTP_TOKEN_FILE", str(file))
    play(leads(guarded.url))
    monkeypatch.setenv("CONSUL_HTTP_TOKEN_FILE", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="cannot be read"):
        from_url(guarded.url)
    monkeypatch.setenv("CONSUL_HTTP_TOKEN", token)
    play(leads(guarded.url))


def test_a_token_that_is_revoked_in_office_ends_the_tenure_in_time_and_the_next_one_in_the_file_leads(
    guarded: ConsulCluster, tmp_path: Path
) -> None:
    first = guarded.token(LEAST)
    file = tmp_path / "token"
    file.write_text(first)

    async def story() -> None:
        url = f"{guarded.url}?token_file={file}&lock_delay=0"
        async with tenure.open_store(url) as store, Candidate(store, "billing/revoked") as ada:
            term = await ada.leads()
            # Another one in the file, before the first is revoked: nobody notices.
            second = await asyncio.to_thread(guarded.token, LEAST)
            file.write_text(second)
            await asyncio.to_thread(guarded.revoke, first)
            await ada.renews(now_ns())
            # None: whoever leads stops by its own clock.
            revoked_at = now_ns()
            await asyncio.to_thread(guarded.revoke, second)
            await until(lambda: bool(ada.left))
            assert [fact.reason for fact in ada.left] == [Reason.STORE_GONE]
            # A renewal may have been under way when it was revoked.
            assert term._term.valid_until < revoked_at + 2 * ada.election.timing.ttl_ns
            file.write_text(await asyncio.to_thread(guarded.token, LEAST))
            again = await ada.leads()
            assert again.token > term.token
            assert store_of(store)._client._token not in {first, second}

    play(story())


def test_a_token_that_has_lost_its_rights_to_keys_is_replaced_by_the_one_in_the_file(
    guarded: ConsulCluster, tmp_path: Path
) -> None:
    first = guarded.token(LEAST)
    file = tmp_path / "token"
    file.write_text(first)

    def take_away_keys() -> None:
        (policy,) = json.loads(guarded.api("GET", f"/v1/acl/token/{guarded._accessors[first]}"))["Policies"]
        fields = {"Name": policy["Name"], "Rules": 'session_prefix "" { policy = "write" }'}
        guarded.api("PUT", f"/v1/acl/policy/{policy['ID']}", fields)

    async def story() -> None:
        async with from_url(guarded.url, token_file=str(file)) as store, from_url(with_token(guarded, first)) as old:
            grant = await store.claim(bid_of("billing/less", ttl_s=60))
            assert isinstance(grant, Grant)
            file.write_text(await asyncio.to_thread(guarded.token, LEAST))
            await asyncio.to_thread(take_away_keys)

            async def refused() -> bool:
                try:
                    await old.read("billing/less")
                except Refused:
                    return True
                return False

            await until_so(refused)  # Every server hears of it in its own time.
            assert await store.renew(grant) == grant
            await store.release(grant.bid)

    play(story())


def test_a_sink_needs_rights_to_its_fences_and_says_which(guarded: ConsulCluster) -> None:
    token = guarded.token(LEAST)

    async def story() -> None:
        async with ConsulSink(with_token(guarded, token)) as sink:
            with pytest.raises(Refused, match=r"lacks permission.*tenure/fence/f"):
                await sink.seal("f", tenure.Token(1))

    play(story())


def test_elections_work_over_mutual_tls_and_a_wrong_certificate_is_told_in_words(tmp_path: Path) -> None:
    for folder in ("ours", "theirs"):
        (tmp_path / folder).mkdir()
    tls = Tls(tmp_path / "ours", clients_need_certificates=True)
    stranger = Tls(tmp_path / "theirs")
    pair = f"cert={tls.client.certificate}&key={tls.client.key}"

    async def story(cluster: ConsulCluster) -> None:
        async with from_url(f"{cluster.url}?ca={tls.ca}&{pair}") as store:
            assert isinstance(await store.claim(bid_of("x")), Grant)
        wrong = {
            f"{cluster.url}?ca={stranger.ca}&{pair}": "not trusted",
            f"{cluster.url}?ca={tls.ca}": "asks for a client certificate",
            cluster.url.replace("consuls", "consul"): "that port speaks TLS: use consuls://",
        }
        for url, words in wrong.items():
            with pytest.raises((Refused, Unreachable, OutcomeUnknown), match=words) as told:
                async with from_url(url):
                    pytest.fail("it opened")
            assert "\n" not in str(told.value)

    with ConsulCluster(size=1, tls=tls, session_ttl_min_s=1) as cluster:
        play(story(cluster))


def test_who_may_write_fences_and_not_the_record_of_repairs_lowers_none(guarded: ConsulCluster) -> None:
    leader = guarded.token('key_prefix "tenure/fence/" { policy = "write" }')
    owner = with_token(guarded, guarded.token('key_prefix "tenure/" { policy = "write" }'))

    async def poison() -> None:
        async with ConsulSink(with_token(guarded, leader)) as sink:
            await sink.seal("books", Token(99))

    play(poison())
    with pytest.raises(Refused, match="Permission denied") as told:
        lower_fence(with_token(guarded, leader), "books", was=99, to=7, why="forged")
    assert leader not in str(told.value)
    assert fences_of(owner) == ({"books": 99}, ())
    repair = lower_fence(owner, "books", was=99, to=7, why="forged")
    assert fences_of(owner) == ({"books": 7}, (repair,))

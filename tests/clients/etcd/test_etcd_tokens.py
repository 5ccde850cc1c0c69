"""Users and passwords on a real cluster: tokens that are forgotten or grow old, and what people are told."""

import asyncio
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tenure.clients.etcd.client import EtcdClient
from tenure.errors import Refused
from tenure.testing.engines import Binary, EtcdCluster
from tests.clients.etcd.etcd_client_rig import Forwarder, armed, client_of, delete, fresh_key, get, play, put, until

PASSWORD = "swordfish-17"


def with_users(cluster: EtcdCluster) -> None:
    """Have the cluster ask for a user: root may do anything, ada what is below ``test/``."""
    cluster.ctl("user", "add", f"root:{PASSWORD}")
    cluster.ctl("user", "grant-role", "root", "root")
    cluster.ctl("user", "add", f"ada:{PASSWORD}")
    cluster.ctl("role", "add", "elections")
    cluster.ctl("role", "grant-permission", "elections", "--prefix=true", "readwrite", "test/")
    cluster.ctl("user", "grant-role", "ada", "elections")
    cluster.ctl("auth", "enable")


@pytest.fixture(scope="module")
def simple(etcd_binary: Binary | None) -> Iterator[EtcdCluster]:
    """One node whose tokens live in its memory."""
    with EtcdCluster(1, binary=etcd_binary) as cluster:
        with_users(cluster)
        yield cluster


@pytest.fixture(scope="module")
def signed(etcd_binary: Binary | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    """One node whose tokens carry the revision of the list of users."""
    folder = tmp_path_factory.mktemp("jwt")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = serialization.Encoding.PEM
    form = (pem, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    (folder / "private").write_bytes(key.private_bytes(*form))
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / "public").write_bytes(public)
    token = f"jwt,pub-key={folder / 'public'},priv-key={folder / 'private'},sign-method=RS256,ttl=10m"
    with EtcdCluster(1, binary=etcd_binary, options=[f"--auth-token={token}"]) as cluster:
        with_users(cluster)
        yield cluster


def ada(cluster: EtcdCluster, password: str = PASSWORD, call_timeout_s: float = 2.0) -> EtcdClient:
    return client_of(cluster, user="ada", password=password, call_timeout_s=call_timeout_s)


def as_root(cluster: EtcdCluster, *arguments: str) -> str:
    return cluster.ctl(f"--user=root:{PASSWORD}", *arguments)


def test_a_user_may_do_what_its_role_allows(simple: EtcdCluster) -> None:
    async def story() -> None:
        async with ada(simple) as client:
            key = fresh_key()
            lease = (await client.lease_grant(60)).lease
            revision = await put(client, key, lease=lease)
            wait = asyncio.create_task(client.deleted(key, revision))
            await armed(client)
            assert await client.lease_renew(lease) == 60
            await delete(client, key)
            await wait

    play(story())


def test_a_wrong_password_is_told_in_one_line_without_it(simple: EtcdCluster) -> None:
    async def story() -> None:
        with pytest.raises(Refused) as caught:
            async with ada(simple, "hunter-2"):
                pass
        assert "user name or password is wrong" in str(caught.value)
        assert "hunter-2" not in repr(caught.value)

    play(story())


def test_no_password_is_told_in_one_line(simple: EtcdCluster) -> None:
    async def story() -> None:
        with pytest.raises(Refused, match="put a user and a password into the URL"):
            async with client_of(simple) as client:  # Newer servers refuse this already, older ones the write.
                await put(client, fresh_key())

    play(story())


def test_what_the_role_does_not_allow_is_refused_also_for_a_wait(simple: EtcdCluster) -> None:
    async def story() -> None:
        async with ada(simple) as client:
            with pytest.raises(Refused, match="grant the user's role readwrite"):
                await put(client, b"elsewhere")
            allowed = asyncio.create_task(client.deleted(fresh_key(), 1 << 40))
            await armed(client)
            with pytest.raises(Refused, match="permission denied"):
                await client.deleted(b"elsewhere", 1)
            await armed(client)
            assert not allowed.done()

    play(story())


def test_a_password_for_a_cluster_without_users_is_not_needed(etcd: EtcdCluster) -> None:
    async def story() -> None:
        async with ada(etcd) as client:
            key = fresh_key()
            await put(client, key)
            assert len((await get(client, key)).kvs) == 1

    play(story())


def test_a_token_that_was_forgotten_is_asked_for_again_and_the_call_is_carried_out(simple: EtcdCluster) -> None:
    async def story() -> None:
        async with ada(simple, call_timeout_s=20) as client:
            key = fresh_key()
            await put(client, key)
            await asyncio.to_thread(simple.nodes[0].stop)  # Tokens of this kind do not survive their server.
            await asyncio.to_thread(simple.nodes[0].start)
            assert client._connection is not None
            await until(lambda: client._connection is not None and client._connection.closed)
            await asyncio.gather(*(put(client, key + b"%d" % number) for number in range(10)))

    play(story())


def test_a_token_of_an_older_list_of_users_is_asked_for_again(signed: EtcdCluster) -> None:
    async def story() -> None:
        async with ada(signed) as client:
            key = fresh_key()
            await put(client, key)
            await asyncio.to_thread(as_root, signed, "role", "add", "another")
            await put(client, key)
            (kv,) = (await get(client, key)).kvs
            assert kv.version == 2

    play(story())


def test_a_wait_outlives_its_token(signed: EtcdCluster) -> None:
    async def story() -> None:
        async with ada(signed) as client:
            first, second = fresh_key(), fresh_key()
            revision = await put(client, first)
            await put(client, second)
            old = asyncio.create_task(client.deleted(first, revision))
            await armed(client)
            await asyncio.to_thread(as_root, signed, "role", "add", "yet-another")
            new = asyncio.create_task(client.deleted(second, revision))  # The stream's token is too old for this.
            await armed(client, 2)
            assert not old.done()
            await delete(client, first)
            await delete(client, second)
            await asyncio.gather(old, new)

    play(story())


def test_a_wait_outlives_every_one_of_its_tokens(signed: EtcdCluster) -> None:
    async def story() -> None:
        async with (
            Forwarder(signed.endpoints[0]) as way,
            EtcdClient([way.endpoint], address=signed.url, user="ada", password=PASSWORD) as client,
            ada(signed) as other,
        ):
            key = fresh_key()
            revision = await put(client, key)
            wait = asyncio.create_task(client.deleted(key, revision))
            await armed(client)
            for number in range(3):
                await asyncio.to_thread(as_root, signed, "role", "add", f"one-more-{number}")
                await way.hang_up()
                await armed(client, 0)
                await way.listen()
                await until(lambda: len(client._watches._armed) == 1 or wait.done())
                assert not wait.done()
            await delete(other, key)
            await wait

    play(story())

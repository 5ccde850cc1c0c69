"""The least rights: each that the manifest gives is needed, and whoever lacks one is told which."""

import re
from collections.abc import Callable, Iterator

import pytest

from tenure.errors import Refused
from tenure.model import Document
from tenure.stores.kubernetes import from_url
from tenure.stores.kubernetes.rights import VERBS
from tenure.testing.engines import KubernetesCluster
from tests.kubernetes.kubernetes_rig import bid, certified, give, rights_of, waits, wins

pytestmark = pytest.mark.anyio

RULES = [*(("leases", verb) for verb in VERBS), ("namespaces", "get")]
LISTED = "verbs: [get, list, watch, create, update]"


@pytest.fixture(params=RULES, ids=" ".join)
def lacking(request: pytest.FixtureRequest, cluster: KubernetesCluster) -> Iterator[tuple[str, str, str]]:
    """A user with all rights of the manifest but one; and which one that is."""
    resource, verb = request.param
    user = f"without-{verb}-{resource}"
    text = rights_of(user).replace("name: tenure\n", f"name: {user}\n")
    assert LISTED in text
    if resource == "leases":
        text = text.replace(LISTED, f"verbs: [{', '.join(kept for kept in VERBS if kept != verb)}]")
    else:
        text = text.replace("resources: [namespaces]", "resources: [nothing]")
    kept = "list" if verb == "get" else "get"
    give(cluster, text, user, kept, "leases")
    yield user, resource, verb
    cluster.kubectl("delete", "--filename=-", stdin=text)


async def do_everything(url: str, name: str) -> list[int]:
    """Stand, lead, speak and leave, look at others, and stand by for another. Returns the tokens of both tenures."""
    async with from_url(url) as store, from_url(url) as other:
        assert await store.read(name) is None
        grant = await wins(store, bid(name))
        assert await store.renew(grant) == grant
        assert await store.proclaim(grant, "http://here") == grant
        await waits(other, bid(name))
        assert await other.ask_to_resign(name) is not None
        assert await other.elections()
        await store.release(grant.bid)
        return [grant.token, (await wins(other, bid(name))).token]


async def test_whoever_lacks_one_of_the_rights_of_the_manifest_cannot_stand_and_is_told_which(
    configured: Callable[..., str], cluster: KubernetesCluster, lacking: tuple[str, str, str]
) -> None:
    user, resource, verb = lacking
    url = configured(certified(cluster, user))
    with pytest.raises(Refused, match=rf'User "{user}" cannot {verb} resource "{resource}".*tenure doctor --rbac'):
        await do_everything(url, user)
    if resource == "leases":
        (found,) = [one for one in await from_url(url).examine(8 * 10**9) if one.subject == "rights"]
        assert found.detail == f"we may not {verb} leases in the namespace default"


async def test_whoever_has_all_rights_of_the_manifest_lacks_nothing(
    configured: Callable[..., str], cluster: KubernetesCluster
) -> None:
    text = rights_of("entitled").replace("name: tenure\n", "name: entitled\n")
    try:
        give(cluster, text, "entitled", "get", "namespaces/default")
        assert await do_everything(configured(certified(cluster, "entitled")), "entitled") == [1, 2]
    finally:
        cluster.kubectl("delete", "--filename=-", stdin=text)


async def test_documents_need_the_lines_that_the_manifest_has_behind_a_hash(
    configured: Callable[..., str], cluster: KubernetesCluster
) -> None:
    text = rights_of("writer").replace("name: tenure\n", "name: writer\n")
    try:
        give(cluster, text, "writer", "get", "leases")
        url = configured(certified(cluster, "writer"))
        async with from_url(url) as store:
            with pytest.raises(Refused, match=r'cannot get resource "configmaps".*tenure doctor --rbac'):
                await store.fetch("writer")
            give(cluster, re.sub(r"\n#(?=- |  )", "\n", text), "writer", "update", "configmaps")
            written = await store.swap("writer", b"1", None)
            assert isinstance(written, Document)
            assert isinstance(await store.swap("writer", b"2", written.version), Document)
    finally:
        cluster.kubectl("delete", "--filename=-", stdin=text)

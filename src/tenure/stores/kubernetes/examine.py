"""The examination of an API server: what it is, what we may do there, and an election."""

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tenure.clients.kubernetes import KubernetesClient, Settings
from tenure.clients.kubernetes.settings import RESOURCE_VERSION
from tenure.stores.examining import Finding, Level, bad, good, warning
from tenure.stores.judging import judge_plain, judge_versions, promises
from tenure.stores.kubernetes.leases import TRIAL
from tenure.stores.kubernetes.rights import VERBS, review
from tenure.stores.measuring import look_at_certificates, part, try_election

if TYPE_CHECKING:
    from tenure.stores.kubernetes.store import KubernetesStore

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")
# Since then resource versions are promised to be numbers that rise; before, they only were.
_COMPARABLE: Final = (1, 35)
_HTTPS_PORT: Final = 443
# What the traits cannot say: they are of those who were there when the leader died.
_NEWCOMERS: Final = "a standby that has just started waits for a whole ttl first, however long the leader has been dead"


async def examine(store: "KubernetesStore", ttl_ns: int) -> list[Finding]:
    """Examine the API server of a store that is not open, and that will not be opened again."""
    settings = store.settings
    async with store:
        found = await part("version", _version(store.client, settings))
        found += await part("encryption", _encryption(settings))
        rights = await part("rights", _rights(store.client, settings.namespace))
        found += rights
        if all(finding.level is Level.GOOD for finding in rights):
            found += await try_election(store, TRIAL, ttl_ns, shared=True)
        found.append(good("clock", "not asked for: no lease depends on it"))
        return [*found, *promises(store.traits), good("promise", _NEWCOMERS)]


async def _version(client: KubernetesClient, settings: Settings) -> list[Finding]:
    told = str((await client.get("/version", operation="examine")).get("gitVersion", "unknown"))
    found = [judge_versions({settings.access.server: told}, {})]
    if settings.tokens_from == RESOURCE_VERSION:
        found.append(judge_tokens(told))
    return found


def judge_tokens(version: str) -> Finding:
    """Judge whether resource versions can be tokens on an API server of this version."""
    told = _VERSION.match(version)
    if told is None or (int(told[1]), int(told[2])) < _COMPARABLE:
        advice = "leave the option out of the URL that takes them for tokens: leaseTransitions will do"
        return warning("tokens", f"resource versions are promised to rise since 1.35, and this is {version}", advice)
    return good("tokens", "from resource versions, which are promised to rise")


async def _encryption(settings: Settings) -> list[Finding]:
    access, parts = settings.access, urlsplit(settings.access.server)
    if access.tls is None:
        return [judge_plain([parts.hostname or ""])]
    if not access.checked:
        advice = "give the cluster a certificate-authority in place of insecure-skip-tls-verify"
        return [warning("encryption", "TLS, and the API server's certificate is not checked", advice)]
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    found = await look_at_certificates([f"{host}:{parts.port or _HTTPS_PORT}"], access.tls)
    return found or [good("encryption", "TLS")]


async def _rights(client: KubernetesClient, namespace: str) -> list[Finding]:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    missing = []
    for verb in VERBS:
        answer = await client.create(path, review(namespace, verb), operation="examine")
        if not answer.get("status", {}).get("allowed"):
            missing.append(verb)
    if missing:
        detail = f"we may not {', '.join(missing)} leases in the namespace {namespace}"
        return [bad("rights", detail, "apply what tenure doctor --rbac prints")]
    return [good("rights", f"we may {', '.join(VERBS)} leases in the namespace {namespace}")]

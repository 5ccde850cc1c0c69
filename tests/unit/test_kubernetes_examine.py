"""What ``tenure doctor`` makes of an API server's version, and the rights that it prints."""

import asyncio

import pytest
import yaml
from aiohttp import web
from tests.kubernetes.stub import stub

from tenure.clients.kubernetes.settings import RESOURCE_VERSION, TRANSITIONS, Settings
from tenure.stores.examining import Level
from tenure.stores.kubernetes import KubernetesStore
from tenure.stores.kubernetes.examine import judge_tokens
from tenure.stores.kubernetes.rights import VERBS, manifest


@pytest.mark.parametrize("version", ["v1.35.0", "1.35", "v1.36.3", "v1.100.1", "v2.0.0", "v1.35.2-eks-1a2b3c"])
def test_resource_versions_are_tokens_where_they_are_promised_to_rise(version: str) -> None:
    assert judge_tokens(version).level is Level.GOOD


@pytest.mark.parametrize("version", ["v1.34.9", "v1.9.0", "v0.99.0", "v1.34.1-gke.100", "unknown", ""])
def test_resource_versions_are_warned_of_as_tokens_where_that_is_not_promised(version: str) -> None:
    found = judge_tokens(version)
    assert found.level is Level.WARNING
    assert f"since 1.35, and this is {version}" in found.detail
    assert "leave the option out of the URL" in found.advice


@pytest.mark.parametrize(
    ("tokens_from", "found"), [(RESOURCE_VERSION, [Level.WARNING]), (TRANSITIONS, [])], ids=["versions", "a count"]
)
def test_who_takes_tokens_from_the_versions_of_an_old_api_server_is_warned_and_nobody_else(
    tokens_from: str, found: list[Level]
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse | None:
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.34.1"})
        if request.path.endswith("/selfsubjectaccessreviews"):
            return web.json_response({"status": {"allowed": False}})
        return None

    async def examined() -> list[Level]:
        async with stub() as api:
            api.answer = answer
            settings = api.settings()
            store = KubernetesStore(Settings(settings.access, "default", 5.0, tokens_from))
            return [finding.level for finding in await store.examine(8 * 10**9) if finding.subject == "tokens"]

    assert asyncio.run(examined()) == found


def test_the_rights_that_are_printed_are_these_and_no_others() -> None:
    role, binding = yaml.safe_load_all(manifest("prod"))
    named = {"name": "tenure", "namespace": "prod"}
    assert role == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": named,
        "rules": [
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "verbs": ["get", "list", "watch", "create", "update"],
            },
            {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["prod"], "verbs": ["get"]},
        ],
    }
    assert binding == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": named,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenure"},
        "subjects": [{"kind": "ServiceAccount", **named}],
    }
    assert role["rules"][0]["verbs"] == list(VERBS)  # which the doctor looks for

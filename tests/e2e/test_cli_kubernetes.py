"""The command line on Kubernetes: what people get wrong is one line, and what ``doctor`` and ``fence`` say of it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.user import at_home

from tenure.testing.engines import KubernetesCluster, Tls

DEADLINE_S = 120.0
WRONG = "hunter2hunter2"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    home = tmp_path / "home"
    home.mkdir()

    def run(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        environment = {key: value for key, value in at_home(home).items() if key != "KUBECONFIG"} | variables
        return subprocess.run(
            [sys.executable, "-m", "tenure", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )

    return run


@pytest.fixture
def configured(kubernetes: KubernetesCluster, tmp_path: Path) -> Callable[..., str]:
    def configured(user: dict[str, Any], server: dict[str, Any] | None = None, namespace: str = "default") -> str:
        configuration = json.loads(kubernetes.kubeconfig.read_text())
        configuration["users"][0]["user"] = user
        configuration["clusters"][0]["cluster"] |= server or {}
        file = tmp_path / "kubeconfig"
        file.write_text(json.dumps(configuration))
        return f"kubernetes://{namespace}?kubeconfig={file}"

    return configured


def check_line(ran: "subprocess.CompletedProcess[str]", code: int, *parts: str) -> None:
    """One line on standard error with these parts, no secret, and this exit code."""
    assert (ran.returncode, ran.stdout) == (code, ""), ran.stdout + ran.stderr
    assert len(ran.stderr.splitlines()) == 1, ran.stderr
    assert WRONG not in ran.stderr
    assert [part for part in parts if part not in ran.stderr] == [], ran.stderr


@pytest.mark.parametrize("command", ["status", "doctor"])
def test_what_people_get_wrong_is_one_line_that_names_the_fix(
    run: Run, configured: Callable[..., str], kubernetes: KubernetesCluster, tmp_path: Path, command: str
) -> None:
    admin = {"token": kubernetes.token_of("admin")}
    check_line(run(command, "--store", configured({"token": WRONG})), 69, "Unauthorized", "log in again")
    check_line(run(command, "--store", configured({})), 69, "was refused", "doctor --rbac")
    bob = configured({"token": kubernetes.token_of("bob")})
    check_line(run(command, "--store", bob), 69, 'User "bob" cannot get', "apply what tenure doctor --rbac prints")
    nowhere = configured(admin, namespace="nowhere")
    check_line(run(command, "--store", nowhere), 69, 'namespaces "nowhere" not found', "create the namespace")
    stranger = configured(admin, {"certificate-authority": str(Tls(tmp_path).ca)})
    check_line(run(command, "--store", stranger), 69, "its certificate is not trusted", "check ca")
    closed = configured(admin, {"server": "https://127.0.0.1:1"})
    check_line(run(command, "--store", closed), 69, "127.0.0.1:1", "nobody listens on that port")


def test_a_url_or_a_file_that_cannot_be_meant_is_exit_code_2(run: Run, kubernetes: KubernetesCluster) -> None:
    own = f"kubeconfig={kubernetes.kubeconfig}"
    check_line(run("status", "--store", "kubernetes://x"), 2, "KUBECONFIG", "?kubeconfig=")
    check_line(
        run("status", "--store", "kubernetes://x?kubeconfig=/no/such/file"), 2, "/no/such/file", "cannot be read"
    )
    check_line(run("status", "--store", f"kubernetes://x?{own}&context=other"), 2, "has no context 'other', only")
    check_line(run("status", "--store", f"kubernetes://Prod?{own}"), 2, "must be a namespace")
    check_line(
        run("status", "--store", f"kubernetes://x?{own}&token={WRONG}"), 2, "leasetransitions or resourceversion"
    )


def test_a_ttl_below_a_second_is_refused_with_the_limit(run: Run, kubernetes: KubernetesCluster) -> None:
    ran = run("run", "short", "--ttl", "500ms", "--store", kubernetes.url, "--", "true")
    check_line(ran, 2, "ttl = 0.5 s", "must lie between 1 and")


def test_rights_without_update_are_a_finding_that_names_the_verb(
    run: Run, configured: Callable[..., str], kubernetes: KubernetesCluster
) -> None:
    printed = run("doctor", "--store", kubernetes.url, "--rbac")
    assert (printed.returncode, printed.stderr) == (0, "")
    rights = printed.stdout.replace(
        "kind: ServiceAccount\n  name: tenure\n  namespace: default", "kind: User\n  name: bob"
    )
    kubernetes.kubectl("apply", "--filename=-", stdin=rights.replace(", update]", "]"))
    url = configured({"token": kubernetes.token_of("bob")})
    try:
        ran = run("doctor", "--store", url, "--json")
        told = {one["subject"]: one for one in json.loads(ran.stdout)["findings"]}
        assert (ran.returncode, told["rights"]["level"]) == (1, "bad")
        assert told["rights"]["detail"] == "we may not update leases in the namespace default"
        assert "tenure doctor --rbac" in told["rights"]["advice"]
        assert "office" not in told
        kubernetes.kubectl("apply", "--filename=-", stdin=rights)
        assert run("doctor", "--store", url).returncode == 0
    finally:
        kubernetes.kubectl("delete", "--filename=-", stdin=rights)


def test_a_healthy_api_server_is_found_so_and_the_trial_is_no_election(run: Run, kubernetes: KubernetesCluster) -> None:
    ran = run("doctor", "--store", f"{kubernetes.url}&token=resourceversion", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    told = json.loads(ran.stdout)
    assert told["store"] == "kubernetes://default"
    assert {one["level"] for one in told["findings"]} == {"good"}
    subjects = {one["subject"] for one in told["findings"]}
    assert {"version", "tokens", "encryption", "rights", "latency", "office", "promise"} <= subjects
    listed = json.loads(run("status", "--store", kubernetes.url, "--json").stdout)["elections"]
    assert "tenure-doctor" not in [one["election"] for one in listed]


def test_rights_are_printed_for_kubernetes_only(run: Run) -> None:
    check_line(run("doctor", "--rbac"), 2, "they are for kubernetes://namespace")


def test_the_policy_is_one_that_the_api_server_takes(run: Run, kubernetes: KubernetesCluster) -> None:
    for options in ((), ("--election", "billing/close")):
        printed = run("fence", "kubernetes", "configmaps/books", "deployments.apps", *options)
        assert (printed.returncode, printed.stderr) == (0, "")
        said = kubernetes.kubectl("apply", "--dry-run=server", "--filename=-", stdin=printed.stdout)
        assert said.count("created (server dry run)") == 4


def test_a_resource_or_a_namespace_that_cannot_be_one_is_exit_code_2(run: Run) -> None:
    check_line(run("fence", "kubernetes", "Config Maps"), 2, "Config Maps", "must be a resource as kubectl names it")
    check_line(run("fence", "kubernetes", "configmaps", "--namespace", "A"), 2, "--namespace = A", "small letters")
    assert run("fence", "kubernetes").returncode == 2


def test_a_command_runs_while_it_leads_and_status_shows_it(run: Run, kubernetes: KubernetesCluster) -> None:
    status = f"{sys.executable} -m tenure status --json --store '{kubernetes.url}'"
    ran = run("run", "shown/while-it-leads", "--once", "--store", kubernetes.url, "--", "sh", "-c", status)
    assert ran.returncode == 0, ran.stderr
    (led,) = (one for one in json.loads(ran.stdout)["elections"] if one["election"] == "shown/while-it-leads")
    assert led["leader"] is not None
    assert led["token"] == 1
    assert 0 < led["remaining_s"] <= 8

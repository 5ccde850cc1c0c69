"""The command line on Kubernetes: what people get wrong is one line, and what ``doctor`` and ``fence`` say of it."""

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kubernetes.kubernetes_rig import certified, expired_token, give, rights_of, service_account
from tests.user import at_home

from tenure.testing.engines import EngineFailed, KubernetesCluster, Tls
from tenure.testing.engines.processes import wait_for

DEADLINE_S = 120.0
PATIENCE_S = 40.0
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


def lease(name: str, **spec: object) -> str:
    """A Lease as somebody wrote it by hand."""
    head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}
    return json.dumps({**head, "spec": spec})


def check_refused(ran: "subprocess.CompletedProcess[str]", ran_command: Path, *parts: str) -> None:
    """Nothing was run, and of the lines on standard error one says why, with these parts."""
    assert (ran.returncode, ran.stdout, ran_command.exists()) == (75, "", False), ran.stderr
    told = [line for line in ran.stderr.splitlines() if "claim was refused" in line]
    assert len(told) == 1, ran.stderr
    assert [part for part in parts if part not in told[0]] == [], ran.stderr


def test_a_command_is_not_run_by_whoever_may_not_update_and_the_line_names_the_fix(
    run: Run, configured: Callable[..., str], kubernetes: KubernetesCluster, tmp_path: Path
) -> None:
    kubernetes.kubectl("apply", "--filename=-", stdin=lease("run-barred", leaseTransitions=3))
    rights = rights_of("frank").replace("name: tenure\n", "name: frank\n").replace(", update]", "]")
    give(kubernetes, rights, "frank", "create", "leases")
    url, ran = configured(certified(kubernetes, "frank")), tmp_path / "ran"
    try:
        told = run("run", "run-barred", "--no-wait", "--store", url, "--", "touch", str(ran))
    finally:
        kubernetes.kubectl("delete", "--filename=-", stdin=rights)
    check_refused(told, ran, 'User "frank" cannot update resource "leases"', "tenure doctor --rbac")


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        (
            {"holderIdentity": "x", "leaseDurationSeconds": 2**31 - 1},
            ("leaseDurationSeconds of Lease run-nonsense is 2147483647", "more than 604800", "kubectl edit lease"),
        ),
        (
            {"leaseTransitions": 2**31 - 1},
            ("leaseTransitions of Lease run-nonsense is 2147483647", "no tenure can have more", "kubectl edit lease"),
        ),
    ],
    ids=["a duration", "a count"],
)
def test_a_command_is_not_run_by_a_lease_that_is_nonsense_and_the_line_names_value_limit_and_fix(
    run: Run, kubernetes: KubernetesCluster, tmp_path: Path, spec: dict[str, object], parts: tuple[str, ...]
) -> None:
    ran = tmp_path / "ran"
    kubernetes.kubectl("apply", "--filename=-", stdin=lease("run-nonsense", **spec))
    try:
        told = run("run", "run-nonsense", "--no-wait", "--store", kubernetes.url, "--", "touch", str(ran))
    finally:
        kubernetes.kubectl("delete", "lease", "run-nonsense")
    check_refused(told, ran, *parts)


def test_a_token_that_has_expired_is_one_line_for_run_as_well(
    run: Run, configured: Callable[..., str], kubernetes: KubernetesCluster, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    with service_account(kubernetes) as account:
        expired = expired_token(kubernetes, account)
        url = configured({"token": expired})
        told = run("run", "run-expired", "--store", url, "--", "touch", str(ran))
        check_line(told, 69, "Unauthorized", "expired: log in again")
        assert expired not in told.stderr
        assert not ran.exists()
        alive = configured({"token": kubernetes.kubectl("create", "token", account.rpartition(":")[2])})
        assert run("run", "run-expired", "--store", alive, "--", "touch", str(ran)).returncode == 0
    assert ran.exists()


@pytest.mark.parametrize("fate", ["killed", "frozen"])
def test_an_api_server_whose_etcd_is_lost_is_one_line_that_says_where_to_look(
    run: Run, kubernetes: KubernetesCluster, fate: str
) -> None:
    for node in kubernetes.etcd.nodes[:2]:
        (node.kill if fate == "killed" else node.pause)()
    try:
        commands = [("doctor",), ("doctor", "--json"), ("status",), ("run", "lost", "--", "true")]
        with ThreadPoolExecutor(len(commands)) as pool:  # Each of them mostly waits.
            ran = pool.map(lambda words: run(*words[:2], "--store", kubernetes.url, *words[2:]), commands)
            for each in ran:
                check_line(each, 69, kubernetes.endpoints[0], "no answer within", "kubectl get --raw /readyz")
        with pytest.raises(EngineFailed, match=r"\[-\]etcd failed"):
            kubernetes.kubectl("get", "--raw", "/readyz")
    finally:
        kubernetes.mend()
    assert run("doctor", "--store", kubernetes.url).returncode == 0


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
        'kind: ServiceAccount\n  name: tenure\n  namespace: "default"', "kind: User\n  name: bob"
    )
    give(kubernetes, rights.replace(", update]", "]"), "bob", "create", "leases")
    url = configured({"token": kubernetes.token_of("bob")})
    try:
        ran = run("doctor", "--store", url, "--json")
        told = {one["subject"]: one for one in json.loads(ran.stdout)["findings"]}
        assert (ran.returncode, told["rights"]["level"]) == (1, "bad")
        assert told["rights"]["detail"] == "we may not update leases in the namespace default"
        assert "tenure doctor --rbac" in told["rights"]["advice"]
        assert "office" not in told
        give(kubernetes, rights, "bob", "update", "leases")
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
    assert "a standby that has just started waits for a whole ttl first" in ran.stdout
    listed = json.loads(run("status", "--store", kubernetes.url, "--json").stdout)["elections"]
    assert "tenure-doctor" not in [one["election"] for one in listed]


def test_rights_are_printed_for_kubernetes_only(run: Run) -> None:
    check_line(run("doctor", "--rbac"), 2, "they are for kubernetes://namespace")


@pytest.mark.parametrize("namespace", ["prod", "true", "null", "on", "0x1f", "123"])
def test_rights_are_printed_for_a_namespace_whatever_yaml_takes_its_name_for(
    run: Run, configured: Callable[..., str], namespace: str
) -> None:
    printed = run("doctor", "--rbac", "--store", configured({"token": "x"}, namespace=namespace))
    assert (printed.returncode, printed.stderr) == (0, "")
    role, binding = yaml.safe_load_all(printed.stdout)
    assert role["rules"][1]["resourceNames"] == [namespace]
    told = [one["namespace"] for one in (role["metadata"], binding["metadata"], binding["subjects"][0])]
    assert told == [namespace] * 3


def held(holder: str, duration_s: int) -> str:
    """The Lease of the doctor's trial, as somebody has it who does not renew it."""
    return lease("tenure-doctor", holderIdentity=holder, leaseDurationSeconds=duration_s, leaseTransitions=7)


def test_a_trial_that_somebody_else_holds_is_a_warning_and_no_verdict(run: Run, kubernetes: KubernetesCluster) -> None:
    kubernetes.kubectl("apply", "--filename=-", stdin=held("somebody", 3600))
    try:
        ran = run("doctor", "--store", kubernetes.url, "--json")
    finally:
        kubernetes.kubectl("delete", "lease", "tenure-doctor")
    told = {one["subject"]: one for one in json.loads(ran.stdout)["findings"]}
    assert (ran.returncode, told["office"]["level"]) == (0, "warning"), ran.stdout
    assert "not tried: tenure-doctor was held for all of" in told["office"]["detail"]
    assert "URL" not in told["office"]["advice"]


def test_a_doctor_waits_for_the_lease_of_one_that_died(run: Run, kubernetes: KubernetesCluster) -> None:
    kubernetes.kubectl("apply", "--filename=-", stdin=held("dead", 2))
    ran = run("doctor", "--store", kubernetes.url, "--json")
    told = [one for one in json.loads(ran.stdout)["findings"] if one["subject"] == "office"]
    assert [one["level"] for one in told] == ["good"], ran.stdout
    assert "with token 8" in told[0]["detail"]


def test_doctors_that_meet_do_not_find_elections_broken(run: Run, kubernetes: KubernetesCluster) -> None:
    with ThreadPoolExecutor(3) as pool:
        ran = list(pool.map(lambda _: run("doctor", "--store", kubernetes.url, "--json"), range(3)))
    told = [one for each in ran for one in json.loads(each.stdout)["findings"] if one["subject"] == "office"]
    assert len(told) == 3
    assert "bad" not in [one["level"] for one in told], told


def test_what_is_printed_makes_the_api_server_refuse_who_says_no_token(run: Run, kubernetes: KubernetesCluster) -> None:
    def told(*manager: str) -> str:
        try:
            return kubernetes.kubectl("create", "configmap", "books", "--dry-run=server", *manager)
        except EngineFailed as error:
            return str(error)

    printed = run("fence", "kubernetes", "configmaps/books", "deployments.apps")
    assert (printed.returncode, printed.stderr) == (0, "")
    kubernetes.kubectl("apply", "--filename=-", stdin=printed.stdout)
    try:
        assert wait_for(lambda: "tenure: say the token of your tenure" in told(), PATIENCE_S), told()
        assert "tenure: the annotation tenure/token must be 4" in told("--field-manager=tenure:4")
    finally:
        kubernetes.kubectl("delete", "--filename=-", stdin=printed.stdout)


def test_a_policy_that_compares_with_the_lease_is_one_that_the_api_server_takes(
    run: Run, kubernetes: KubernetesCluster
) -> None:
    printed = run("fence", "kubernetes", "configmaps/books", "deployments.apps", "--election", "billing/close")
    assert (printed.returncode, printed.stderr) == (0, "")
    assert printed.stdout.count('name: "billingx--2fclose"') == 2
    # It is not applied. An API server's memory of Leases stands still once the last such policy was deleted, and one test
    # beside this one needs it: what such a policy refuses is tested there.
    said = kubernetes.kubectl("apply", "--dry-run=server", "--filename=-", stdin=printed.stdout)
    assert said.count("created (server dry run)") == 4


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["Config Maps"], ("Config Maps", "must be a resource as kubectl names it")),
        (["configmap/x"], ("resource = configmap/x", "did you mean configmaps?")),
        (["cm/x"], ("resource = cm/x", "such as deployments.apps/web")),
        (["configmaps", "deployments/web"], ("deployments/web", "did you mean deployments.apps?")),
        (["configmaps/{fence}"], ("configmaps/{fence}", "small letters, digits, dashes and dots")),
        (["configmaps/-a..b"], ("configmaps/-a..b", "a letter or a digit at both ends")),
        (["configmaps", "--namespace", "A"], ("--namespace = A", "small letters")),
        (["configmaps", "--election", ""], ("election = ''", "at least one character")),
        (["configmaps", "--election", "a" * 300], ("election = aaaa", "at most 255 bytes")),
        (["configmaps", "--election", "A" * 100], ("--election = AAAA", "253 are allowed: use a shorter one")),
    ],
)
def test_a_fence_that_cannot_be_meant_is_exit_code_2(run: Run, arguments: list[str], parts: tuple[str, ...]) -> None:
    check_line(run("fence", "kubernetes", *arguments), 2, *parts)


def test_a_fence_needs_something_to_fence(run: Run) -> None:
    assert run("fence", "kubernetes").returncode == 2


def test_a_command_runs_while_it_leads_and_status_shows_it(run: Run, kubernetes: KubernetesCluster) -> None:
    status = f"{sys.executable} -m tenure status --json --store '{kubernetes.url}'"
    ran = run("run", "shown/while-it-leads", "--once", "--store", kubernetes.url, "--", "sh", "-c", status)
    assert ran.returncode == 0, ran.stderr
    (led,) = (one for one in json.loads(ran.stdout)["elections"] if one["election"] == "shown/while-it-leads")
    assert led["leader"] is not None
    assert led["token"] == 1
    assert 0 < led["remaining_s"] <= 8

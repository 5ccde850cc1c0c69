"""Kubeconfig files, pods and URLs: what they come to, and what is said of those that come to nothing."""

import asyncio
import base64
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenure.clients.kubernetes.access import in_pod
from tenure.clients.kubernetes.kubeconfig import access_of
from tenure.clients.kubernetes.settings import settings_of
from tenure.errors import ConfigError
from tenure.testing.engines import Tls

SECRET = "hunter2"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return Tls(tmp_path_factory.mktemp("tls"))


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No configuration but the test's own, and no proxy."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(name: str = "config", user: Any = None, cluster: Any = None, **top: Any) -> Path:
        file = tmp_path / name
        file.write_text(
            json.dumps(
                {
                    "current-context": "c",
                    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "prod"}}],
                    "clusters": [{"name": "k", "cluster": {"server": "https://api.example:6443/"} | (cluster or {})}],
                    "users": [{"name": "u", "user": user or {}}],
                    **top,
                }
            )
        )
        return file

    return write


def headers(file: Path) -> dict[str, str]:
    return dict(asyncio.run(access_of([file], None).credentials.headers()))


def test_a_context_says_where_who_and_which_namespace(write: Callable[..., Path]) -> None:
    file = write(user={"token": SECRET})
    access = access_of([file], None)
    assert (access.server, access.namespace, access.checked) == ("https://api.example:6443", "prod", True)
    assert headers(file) == {"Authorization": f"Bearer {SECRET}"}


def test_yaml_is_read(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(
        "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\nclusters:\n- name: k\n  cluster:\n"
        "    server: http://localhost:8001\n"
    )
    access = access_of([file], None)
    assert (access.server, access.tls, access.namespace) == ("http://localhost:8001", None, "default")


def test_the_first_file_that_names_a_thing_has_it(write: Callable[..., Path]) -> None:
    first = write("first", users=[], **{"current-context": ""})
    second = write("second", user={"token": SECRET}, cluster={"server": "https://other"})
    access = access_of([first, second], None)
    assert access.server == "https://api.example:6443"
    assert asyncio.run(access.credentials.headers())


def test_another_context_may_be_named(write: Callable[..., Path]) -> None:
    contexts = [{"name": name, "context": {"cluster": "k", "namespace": name}} for name in ("c", "d")]
    file = write(contexts=contexts)
    assert settings_of(f"kubernetes://?kubeconfig={file}&context=d").namespace == "d"
    assert settings_of(f"kubernetes://x?kubeconfig={file}&context=d").address == "kubernetes://x"


def test_certificates_are_taken_inline_and_from_files_beside_the_kubeconfig(
    write: Callable[..., Path], tls: Tls, tmp_path: Path
) -> None:
    ca, certificate, key = tls.ca.read_bytes(), tls.client.certificate.read_bytes(), tls.client.key.read_bytes()
    inline = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    file = write(user=inline, cluster={"certificate-authority-data": base64.b64encode(ca).decode()})
    loaded = access_of([file], None).tls
    assert loaded is not None
    assert len(loaded.get_ca_certs()) == 1
    for name, content in {"ca.pem": ca, "client.pem": certificate, "client.key": key}.items():
        (tmp_path / name).write_bytes(content)
    beside = {"client-certificate": "client.pem", "client-key": "client.key"}
    file = write(user=beside, cluster={"certificate-authority": "ca.pem"})
    loaded = access_of([file], None).tls
    assert loaded is not None
    assert len(loaded.get_ca_certs()) == 1


def test_a_certificate_that_is_not_checked_is_known_as_such(write: Callable[..., Path]) -> None:
    access = access_of([write(cluster={"insecure-skip-tls-verify": True, "tls-server-name": "api"})], None)
    assert not access.checked
    assert access.server_name == "api"
    assert access.tls is not None
    assert not access.tls.check_hostname


def test_a_proxy_is_the_clusters_own_or_that_of_the_environment(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert access_of([write()], None).proxy is None
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:1")
    assert access_of([write()], None).proxy == "http://proxy:1"
    assert access_of([write(cluster={"proxy-url": "http://own:2"})], None).proxy == "http://own:2"
    monkeypatch.setenv("NO_PROXY", "api.example")
    assert access_of([write()], None).proxy is None


def test_a_token_in_a_block_of_yaml_has_no_line_break_at_its_end(write: Callable[..., Path]) -> None:
    assert headers(write(user={"token": f"{SECRET}\n"})) == {"Authorization": f"Bearer {SECRET}"}


def test_a_token_file_is_read_again_when_it_was_refused(write: Callable[..., Path], tmp_path: Path) -> None:
    async def story() -> None:
        token = tmp_path / "token"
        token.write_text("first\n")
        credentials = access_of([write(user={"tokenFile": "token"})], None).credentials
        assert await credentials.headers() == {"Authorization": "Bearer first"}
        first = await credentials.headers()
        assert not await credentials.renew(first)  # It has not changed: asking again would not help.
        token.write_text("second")
        assert await credentials.headers() == {"Authorization": "Bearer first"}
        assert await credentials.renew(first)
        assert await credentials.renew(first)  # Another request that had the old one refused finds the new one there.
        assert await credentials.headers() == {"Authorization": "Bearer second"}

    asyncio.run(story())


PLUGIN = """
import json, os, sys, pathlib
count = pathlib.Path(sys.argv[1])
number = int(count.read_text() or 0) + 1 if count.exists() else 1
count.write_text(str(number))
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
status = {"token": f"{os.environ['FLAVOUR']}-{number}"} | json.loads(sys.argv[2])
print(json.dumps({"kind": "ExecCredential", "apiVersion": asked["apiVersion"], "status": status}))
"""


def plugin(tmp_path: Path, status: dict[str, str], command: str = sys.executable, **fields: Any) -> dict[str, Any]:
    script = tmp_path / "plugin.py"
    script.write_text(PLUGIN)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": command,
            "args": [str(script), str(tmp_path / "count"), json.dumps(status)],
            "env": [{"name": "FLAVOUR", "value": "plain"}],
            **fields,
        }
    }


def test_an_exec_plugin_is_run_once_until_what_it_said_has_ended_or_was_refused(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    async def story() -> None:
        lasting = access_of([write(user=plugin(tmp_path, {"expirationTimestamp": "2999-01-01T00:00:00Z"}))], None)
        both = await asyncio.gather(lasting.credentials.headers(), lasting.credentials.headers())
        assert list(both) == [{"Authorization": "Bearer plain-1"}] * 2
        assert await lasting.credentials.renew(both[0])
        assert await lasting.credentials.headers() == {"Authorization": "Bearer plain-2"}
        assert await lasting.credentials.renew(both[1])  # Refused as well, and known to be: no third run.
        assert await lasting.credentials.headers() == {"Authorization": "Bearer plain-2"}
        ended = access_of([write(user=plugin(tmp_path, {"expirationTimestamp": "2020-01-01T00:00:00Z"}))], None)
        assert await ended.credentials.headers() == {"Authorization": "Bearer plain-3"}
        assert await ended.credentials.headers() == {"Authorization": "Bearer plain-4"}

    asyncio.run(story())


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"command": "no-such-plugin", "installHint": "see the manual"},
            "cannot be started .*install it; see the manual",
        ),
        ({"command": "false"}, "ended with code 1"),
        ({"command": "true"}, "printed something else than an ExecCredential, so run it by hand"),
        ({"apiVersion": None}, "needs a command and an apiVersion"),
        ({"interactiveMode": "Always"}, "wants to ask a person"),
        ({"env": ["X"]}, "no list of names and values"),
        ({"args": 5}, "has args that are no list"),
        ({"env": [{"name": "FLAVOUR", "value": "a\nb"}]}, "should hold a token, which is one line"),
    ],
)
def test_an_exec_plugin_that_does_not_work_is_told_of_in_one_line(
    write: Callable[..., Path], tmp_path: Path, fields: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told) as error:
        headers(write(user=plugin(tmp_path, {}, **fields)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"current-context": "z"}, "has no context 'z', only c"),
        ({"current-context": ""}, "has no current-context: name one by"),
        ({"contexts": 5}, "has contexts that are no list"),
        ({"clusters": []}, "has no cluster 'k', only none"),
        ({"users": []}, "has no user 'u', only none"),
        ({"cluster": {"server": "api.example"}}, "has no server that is like https://host:port"),
        ({"cluster": {"server": "https://api.example:99999"}}, "has no server that is like https://host:port"),
        ({"cluster": {"server": "https://me:hunter2@api.example"}}, "has no server that is like https://host:port"),
        ({"cluster": {"server": "https://api..example:6443"}}, "has no server that is like https://host:port"),
        ({"cluster": {"server": f"https://{'a' * 64}.example"}}, "has no server that is like https://host:port"),
        ({"cluster": {"proxy-url": "http://proxy..example:1"}}, "has a proxy-url that is not like http://host:port"),
        ({"cluster": {"proxy-url": "http://proxy:x"}}, "has a proxy-url that is not like http://host:port"),
        ({"cluster": {"proxy-url": "socks5://proxy:1"}}, "has a proxy-url that is not like http://host:port"),
        ({"cluster": {"certificate-authority": "gone.pem"}}, "cannot be read: .*gone.pem"),
        ({"cluster": {"certificate-authority-data": "§"}}, "that is not base64"),
        ({"cluster": {"certificate-authority-data": "eA=="}}, "must be certificates in PEM form"),
        ({"user": {"client-certificate-data": "eA=="}}, "must be a certificate in PEM form"),
        ({"user": {"token": 7}}, "which must be text"),
        ({"user": {"token": "hunter2\nhunter2"}}, "should hold a token, which is one line"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "which Kubernetes has given up"),
    ],
)
def test_a_kubeconfig_that_cannot_be_meant_is_told_of_with_its_file(
    write: Callable[..., Path], changes: dict[str, Any], told: str
) -> None:
    file = write(**changes)
    with pytest.raises(ConfigError, match=told) as error:
        access_of([file], None)
    assert str(file) in str(error.value)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    ("text", "told"), [("a: [", "is not YAML"), ("7", "is no kubeconfig"), (None, "cannot be read")]
)
def test_a_file_that_is_no_kubeconfig_is_told_of(tmp_path: Path, text: str | None, told: str) -> None:
    file = tmp_path / "config"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=told):
        settings_of("kubernetes://x", kubeconfig=str(file))


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("kubernetes://Prod", "must be a namespace, of up to 63 small letters"),
        ("kubernetes://api.example:6443", "must be a namespace"),
        ("kubernetes://x/y", "has something behind the namespace"),
        ("kubernetes://x?contxt=c", "has an option 'contxt' that kubernetes:// does not know"),
        ("kubernetes://x?token=hunter2", "must be leasetransitions or resourceversion"),
        ("kubernetes://x?timeout=0", "timeout = 0: must be a number of seconds up to 60"),
    ],
)
def test_a_url_that_cannot_be_meant_is_told_of_without_a_secret(
    write: Callable[..., Path], url: str, told: str
) -> None:
    with pytest.raises(ConfigError, match=told) as error:
        settings_of(url, kubeconfig=str(write()))
    assert SECRET not in str(error.value)


def test_who_has_neither_file_nor_pod_is_told_where_to_name_one() -> None:
    with pytest.raises(ConfigError, match=r"\?kubeconfig=… in the URL or by KUBECONFIG"):
        settings_of("kubernetes://x")


def test_the_users_own_file_is_found(write: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "home" / ".kube").mkdir(parents=True)
    write("home/.kube/config", user={"token": SECRET})
    assert settings_of("kubernetes://").namespace == "prod"


def test_a_pod_finds_its_api_server_and_reads_its_token_and_authorities_again(tls: Tls, tmp_path: Path) -> None:
    async def story() -> None:
        for name, text in {"token": "first", "namespace": "prod\n", "ca.crt": tls.ca.read_text()}.items():
            (tmp_path / name).write_text(text)
        environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
        access = in_pod(environment, tmp_path)
        assert access is not None
        assert (access.server, access.namespace) == ("https://[fd00::1]:443", "prod")
        assert await access.credentials.headers() == {"Authorization": "Bearer first"}
        other = tmp_path / "other"
        other.mkdir()
        (tmp_path / "ca.crt").write_text(Tls(other).ca.read_text())
        (tmp_path / "token").write_text("second")
        assert await access.credentials.renew({"Authorization": "Bearer first"})
        assert await access.credentials.headers() == {"Authorization": "Bearer second"}
        assert access.tls is not None
        assert len(access.tls.get_ca_certs()) == 2
        assert in_pod({}, tmp_path) is None

    asyncio.run(story())

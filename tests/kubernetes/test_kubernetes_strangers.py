"""Whatever answers in place of an API server, or as one with something missing: a line that says so, and no tenure."""

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tenure.errors import OutcomeUnknown
from tenure.model import Token
from tenure.sinks import KubernetesSink
from tenure.stores.kubernetes import KubernetesStore
from tenure.testing.engines import KubernetesCluster
from tests.kubernetes.kubernetes_rig import bid, wins
from tests.kubernetes.stub import Stub, stub
from tests.user import at_home

WITHIN_S = 100.0
PAGE = "<!DOCTYPE html>\n<html>\n<body>\nWelcome\n</body>\n</html>\n"
NO_API_SERVER = "is that an API server"


def kubeconfig(folder: Path, server: str) -> str:
    """A kubeconfig for whatever answers there, as an option of a URL."""
    file = folder / "kubeconfig"
    named = {"clusters": [{"name": "k", "cluster": {"server": server}}], "users": []}
    contexts = [{"name": "c", "context": {"cluster": "k"}}]
    file.write_text(json.dumps({"current-context": "c", "contexts": contexts, **named}))
    return f"kubeconfig={file}"


@contextmanager
def web_server(status: int, page: str) -> Iterator[str]:
    """A server that says the same to everybody."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            said = page.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            """Keep it quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


def told(home: Path, url: str, *command: str) -> tuple[int, str]:
    """The exit code of a command, and the one line that it says."""
    body = ["--", "touch", str(home / "ran")] if command[0] == "run" else []
    ran = subprocess.run(
        [sys.executable, "-m", "tenure", *command, "--store", url, *body],
        env=at_home(home),
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert (ran.stdout, len(ran.stderr.splitlines())) == ("", 1), ran.stdout + ran.stderr
    assert not (home / "ran").exists()
    return ran.returncode, ran.stderr


@pytest.mark.parametrize("command", [("status",), ("run", "x", "--no-wait"), ("doctor",)], ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("status", "page", "says"),
    [
        (404, PAGE, "no Kubernetes API server answered, but something that said 404"),
        (200, PAGE, NO_API_SERVER),
        (200, "{}", NO_API_SERVER),
    ],
    ids=["no such page", "a page", "an object"],
)
def test_a_server_of_the_web_is_told_from_an_api_server(
    tmp_path: Path, command: tuple[str, ...], status: int, page: str, says: str
) -> None:
    with web_server(status, page) as server:
        code, line = told(tmp_path, f"kubernetes://default?{kubeconfig(tmp_path, server)}", *command)
    assert code == 69
    assert says in line


def test_a_host_that_cannot_be_is_a_line_and_exit_code_2(tmp_path: Path) -> None:
    for host in ("kube..example", f"{'a' * 64}.example"):
        code, line = told(tmp_path, f"kubernetes://default?{kubeconfig(tmp_path, f'https://{host}:6443')}", "status")
        assert code == 2
        assert "has no server that is like https://host:port" in line


def test_a_namespace_that_is_not_there_is_a_line_for_run_as_well(cluster: KubernetesCluster, tmp_path: Path) -> None:
    url = cluster.url.replace("://default", "://nowhere")
    code, line = told(tmp_path, url, "run", "x")
    assert code == 69
    assert 'namespaces "nowhere" not found' in line
    assert "create the namespace, or name another one in the URL" in line


# What stands there in place of metadata.
NONSENSE: tuple[object, ...] = ({}, {"metadata": None}, {"metadata": "x"}, {"metadata": {"name": "x"}}, [])


def nonsense(api: Stub, said: object, *methods: str) -> None:
    """Answer these requests, and nothing else, with something that no API server says."""

    async def answer(request: web.Request) -> web.StreamResponse | None:
        return web.json_response(said) if request.method in methods else None

    api.answer = answer


@pytest.mark.anyio
@pytest.mark.parametrize("said", NONSENSE, ids=json.dumps)
async def test_an_answer_without_what_every_object_has_grants_nothing_and_is_told_of(said: object) -> None:
    async with stub() as api:
        nonsense(api, said, "GET")
        with pytest.raises(OutcomeUnknown, match=NO_API_SERVER):
            async with KubernetesStore(api.settings()):
                pytest.fail("it was opened")
        api.answer = None
        async with KubernetesStore(api.settings()) as store:
            await wins(store, bid("before"))
            nonsense(api, said, "POST")
            with pytest.raises(OutcomeUnknown, match=NO_API_SERVER):
                await store.claim(bid("nonsense"))
            with pytest.raises(OutcomeUnknown, match=NO_API_SERVER):
                await store.swap("nonsense", b"x", None)
            nonsense(api, said, "GET")
            for asking in (store.read("x"), store.fetch("x")):
                with pytest.raises(OutcomeUnknown, match=NO_API_SERVER):
                    await asking


@pytest.mark.anyio
async def test_what_is_no_list_is_told_of_and_a_lease_without_a_name_in_one_is_no_election() -> None:
    async with stub() as api, KubernetesStore(api.settings()) as store:
        for said in (*NONSENSE[:3], {"items": {}}, {"metadata": {}, "items": "x"}, []):
            nonsense(api, said, "GET")
            with pytest.raises(OutcomeUnknown, match=NO_API_SERVER):
                await store.elections()
        nonsense(api, {"metadata": {}, "items": None}, "GET")
        assert await store.elections() == []
        items: list[object] = [{}, [], None, {"metadata": None}, {"metadata": {"name": "led"}, "spec": {}}]
        nonsense(api, {"metadata": {}, "items": items}, "GET")
        assert [found.election for found in await store.elections()] == ["led"]


@pytest.mark.anyio
async def test_a_sink_is_told_of_it_too(tmp_path: Path) -> None:
    async with stub() as api:
        url = f"kubernetes://default?{kubeconfig(tmp_path, api.server)}"
        async with KubernetesSink(url, "configmaps/books") as sink:
            for said in NONSENSE:
                nonsense(api, said, "GET")
                with pytest.raises(OutcomeUnknown, match=NO_API_SERVER):
                    await sink.seal("led", Token(5))

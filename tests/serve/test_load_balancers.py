"""Real load balancers in front of two nodes: traffic follows the leader, and nothing is handled twice."""

import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenure.testing.engines.binaries import tool
from tenure.testing.engines.ports import claim_ports
from tenure.web.serving import serving
from tests.processes import check_eventually
from tests.serve.outside import Process, Stage, staged

EXAMPLES = Path(__file__).parents[2] / "examples" / "sidecar"
NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log warn;
events {{}}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
{parts}
}}
"""


class Nodes:
    """Two nodes: on each a service that says its name, and a sidecar that stands for it."""

    def __init__(self, stage: Stage, stack: ExitStack) -> None:
        self.handled: Counter[str] = Counter()
        self.sidecars: dict[str, Process] = {}
        self.services: dict[str, int] = {}
        for name in "ab":
            url = stack.enter_context(serving(self._service(name)))
            self.services[name] = httpx.URL(url).port or 0
            self.sidecars[name] = stage.start("--stand", "billing/close", "--advertise", url)
        self._claims = claim_ports(3, "127.0.0.1")
        self.front, *self.gates = [claim.port for claim in self._claims]

    def _service(self, name: str) -> Any:
        def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
            self.handled[environ["PATH_INFO"]] += environ["REQUEST_METHOD"] == "POST"
            start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "1")])
            return [name.encode()]

        return app

    def close(self) -> None:
        for claim in self._claims:
            claim.release()

    @property
    def leader(self) -> str:
        found = [name for name, sidecar in self.sidecars.items() if sidecar.status("/leader/billing/close") == 200]
        return found[0] if len(found) == 1 else ""

    def ask(self, path: str = "/", method: str = "GET") -> str:
        """Who answered; "": nobody."""
        try:
            answer = httpx.request(method, f"http://127.0.0.1:{self.front}{path}", timeout=30)
        except httpx.HTTPError:
            return ""
        return answer.text if answer.status_code == 200 else ""


@contextmanager
def running(*words: str, folder: Path) -> Iterator[None]:
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(words, stdout=output, stderr=output)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with staged(tmp_path) as stage, ExitStack() as stack:
        made = Nodes(stage, stack)
        stack.callback(made.close)
        yield made


def check_follows_the_leader(nodes: Nodes) -> None:
    """Traffic goes to the leader, and after its death to the next one; no write is handled twice, nor by a standby."""
    check_eventually(lambda: nodes.leader)
    first = nodes.leader
    # HAProxy takes every node for a leader until it has asked it for the first time.
    check_eventually(lambda: {nodes.ask() for _ in range(10)} == {first})
    assert {nodes.ask(f"/write/{number}", "POST") for number in range(10)} == {first}
    nodes.sidecars[first].started.send_signal(signal.SIGKILL)
    (second,) = set("ab") - {first}
    check_eventually(lambda: nodes.ask() == second)
    written = Counter(nodes.ask(f"/late/{number}", "POST") for number in range(10))
    assert set(written) <= {second, ""}  # Who is told of an error knows that it does not know.
    assert written[second] >= 8
    assert max(nodes.handled.values()) == 1


def test_haproxy_follows_the_leader(nodes: Nodes, tmp_path: Path) -> None:
    haproxy = tool("haproxy")
    text = (EXAMPLES / "haproxy.cfg").read_text().replace("10.0.0.1:80\n", f"127.0.0.1:{nodes.front}\n")
    for name, host in (("a", "10.0.0.5"), ("b", "10.0.0.6")):
        there = f"127.0.0.1:{nodes.services[name]} check port {nodes.sidecars[name].port}"
        text = text.replace(f"server {name} {host}:8080 check port 8087", f"server {name} {there}")
    assert "server a 127" in text
    config = tmp_path / "haproxy.cfg"
    config.write_text(text)
    checked = subprocess.run([haproxy, "-c", "-f", config], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    with running(haproxy, "-db", "-f", str(config), folder=tmp_path):
        check_follows_the_leader(nodes)


def test_nginx_follows_the_leader(nodes: Nodes, tmp_path: Path) -> None:
    nginx = tool("nginx")
    front = (EXAMPLES / "nginx-front.conf").read_text().replace("10.0.0.1:80;", f"127.0.0.1:{nodes.front};")
    parts = []
    for name, gate, host in zip("ab", nodes.gates, ("10.0.0.5", "10.0.0.6"), strict=True):
        front = front.replace(f"{host}:8081", f"127.0.0.1:{gate}")
        node = (EXAMPLES / "nginx-node.conf").read_text().replace("10.0.0.5:8081", f"127.0.0.1:{gate}")
        node = node.replace("127.0.0.1:8080", f"127.0.0.1:{nodes.services[name]}")
        parts.append(node.replace("127.0.0.1:8087", f"127.0.0.1:{nodes.sidecars[name].port}"))
    config = tmp_path / "nginx.conf"
    config.write_text(NGINX.format(folder=tmp_path, parts="\n".join([front, *parts])))
    with running(nginx, "-p", str(tmp_path), "-c", str(config), folder=tmp_path):
        check_follows_the_leader(nodes)
    assert "emerg" not in (tmp_path / "error.log").read_text()

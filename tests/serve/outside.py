"""Sidecars as users run them: processes, with a store in a folder of the test."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tenure.testing.engines.ports import Claim, claim_ports
from tests.processes import check_eventually
from tests.user import at_home

TENURE = Path(sys.executable).parent / "tenure"
TOKEN = "0123456789abcdef0123456789abcdef"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Process:
    """One sidecar."""

    def __init__(self, started: "subprocess.Popen[str]", url: str, path: str = "") -> None:
        self.started, self.url, self.pid = started, url, started.pid
        transport = httpx.HTTPTransport(uds=path) if path else None
        self.client = httpx.Client(base_url=url, headers=BEARER, timeout=30, transport=transport)

    @property
    def port(self) -> int:
        return httpx.URL(self.url).port or 80

    def status(self, path: str) -> int:
        """What it answers to a question; 0: nothing."""
        try:
            return self.client.get(path).status_code
        except httpx.HTTPError:
            return 0

    def post(self, path: str, **body: object) -> dict[str, Any]:
        answer = self.client.post(path, json=body)
        assert answer.is_success, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def lead(self, election: str, **body: object) -> dict[str, Any]:
        """Stand for a client, and return when it leads."""
        found = self.post(f"/v1/elections/{election}/candidacies", **body)
        while found["state"] == "waiting":
            found = self.client.get(f"/v1/candidacies/{found['id']}?wait_s=20").json()
        assert found["state"] == "leading", found
        return found

    def end(self, how: int = signal.SIGTERM) -> str:
        """End it, and return what it said."""
        self.started.send_signal(how)
        said = self.started.communicate(timeout=30)[1]
        self.client.close()
        return said


class Stage:
    """A folder with a store in it, and the sidecars that were started there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, folder / "store.db"
        self.url = f"sqlite://{self.store}"
        self.token = folder / "token"
        self.token.write_text(f"{TOKEN}\n")
        self._processes: list[Process] = []
        self.others: list[subprocess.Popen[bytes]] = []  # whatever else a test has started: it ends with the stage
        self._claims: list[Claim] = []

    def words(self, *options: str, listen: str) -> list[str]:
        store = [
            "--store",
            self.url,
            "--token-file",
            str(self.token),
            "--ttl",
            "2s",
            "--rate",
            "100000",
        ]
        return [str(TENURE), "serve", *store, "--listen", listen, *options]

    def start(self, *options: str, listen: str = "", files: int | None = None) -> Process:
        """Start one and return when it answers; ``files``: where the system allows no more of them."""
        if not listen:
            (claim,) = claim_ports(1, "127.0.0.1")
            self._claims.append(claim)
            listen = f"127.0.0.1:{claim.port}"
        words = self.words(*options, listen=listen)
        if files is not None:
            words = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *words]
        started = subprocess.Popen(words, text=True, stderr=subprocess.PIPE, env=at_home(self.folder))
        assert started.stderr is not None
        said = ""
        while "listening on" not in said:  # It is said when somebody can connect.
            line = started.stderr.readline()
            assert line, said
            said += line
        path = listen.removeprefix("unix:") if listen.startswith("unix:") else ""
        process = Process(started, "http://localhost" if path else f"http://{listen}", path)
        self._processes.append(process)
        check_eventually(lambda: process.status("/health") == 200)
        return process

    def refused(self, *options: str, listen: str = "127.0.0.1:0") -> str:
        """What a start says that must end with one line and exit code 2."""
        words = self.words(*options, listen=listen)
        answer = subprocess.run(
            words, text=True, capture_output=True, env=at_home(self.folder), timeout=30, check=False
        )
        assert (answer.returncode, answer.stderr.count("\n")) == (2, 1), answer.stderr
        return answer.stderr

    def close(self) -> None:
        for other in self.others:
            other.kill()
            other.wait()
        for process in self._processes:
            process.client.close()
            if process.started.poll() is None:
                process.started.kill()
                os.kill(process.pid, signal.SIGCONT)
            process.started.communicate()
        for claim in self._claims:
            claim.release()


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    stage = Stage(folder)
    try:
        yield stage
    finally:
        stage.close()


def events_of(lines: Iterator[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The events of a stream: id, kind, and what they say."""
    number = kind = ""
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "id":
            number = value
        elif name == "event":
            kind = value
        elif name == "data":
            yield number, kind, json.loads(value)


def raw(port: int, content: bytes, *, until: bytes = b"\r\n\r\n") -> bytes:
    """Send bytes and return what comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(content)
        read = b""
        while until not in read and (more := connection.recv(65536)):
            read += more
        return read

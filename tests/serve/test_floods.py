"""Thousands of connections of strangers cost those who lead nothing: neither their heartbeats, nor their streams, nor their office."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest

from tenure.serve.crowd import FILES, OTHERS_MAX, room
from tests.serve.outside import BEARER, TOKEN, events_of, staged

# It opens connections and sends the same on each. It says so when as many of them as must were closed by the server, who has seen all of
# them by then, and keeps the rest until its own input ends.
FLOOD = """
import resource, select, socket, sys
count, port, said, over = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
said = said.encode().decode("unicode_escape").encode()
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
opened, closed, poll = [], set(), select.poll()
for number in range(count):
    one = socket.create_connection(("127.0.0.1", port), timeout=30)
    try:
        one.sendall(said)
    except OSError:
        pass  # It had to make room already.
    opened.append(one)
    poll.register(one, select.POLLRDHUP)
while len(closed) < over:
    for file, _ in poll.poll():
        closed.add(file)
        poll.unregister(file)
print(len(opened), flush=True)
sys.stdin.read()
"""
IDLE = ""
SLOW = r"POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
LISTEN = r"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@contextmanager
def flood(count: int, port: int, said: str) -> Iterator[None]:
    words = [sys.executable, "-c", FLOOD, str(count), str(port), said, str(count - OTHERS_MAX)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == f"{count}\n"
            yield
        finally:
            process.stdin.close()


def beaten(connection: HTTPConnection, path: str) -> int:
    """What a heartbeat over this connection is answered with."""
    connection.request("POST", path, headers=BEARER)
    answer = connection.getresponse()
    answer.read()
    return answer.status


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(IDLE, id="say nothing"),
        pytest.param(SLOW, id="half a body"),
        pytest.param(LISTEN, id="listen to events"),
    ],
)
def test_who_leads_goes_on_while_strangers_open_more_connections_than_there_may_be(tmp_path: Path, said: str) -> None:
    with staged(tmp_path) as stage:
        sidecar = stage.start("--ttl", "20s", "--drain", "0.1s")
        held = sidecar.lead("by/heartbeat", keep_s=60)
        streamed = sidecar.lead("by/stream", keep_s=3)
        beat = f"/v1/candidacies/{held['id']}/heartbeat"
        own = HTTPConnection("127.0.0.1", sidecar.port, timeout=30)
        own.connect()
        own.auto_open = 0  # It has this one connection, and no other if that is closed.
        assert beaten(own, beat) == 200
        with sidecar.client.stream("GET", f"/v1/candidacies/{streamed['id']}/stream") as stream:
            states = events_of(stream.iter_lines())
            assert next(states)[2]["state"] == "leading"
            with flood(OTHERS_MAX + 500, sidecar.port, said):
                for _ in range(5):  # Over the connection that it has, and over new ones.
                    assert beaten(own, beat) == 200
                    assert httpx.post(f"{sidecar.url}{beat}", headers=BEARER).status_code == 200
                    assert httpx.get(f"{sidecar.url}/leader/by/heartbeat").status_code == 200
                assert len(list(Path(f"/proc/{sidecar.pid}/fd").iterdir())) <= OTHERS_MAX + 100
                assert next(states)[2]["state"] == "leading"  # Told a third of its time later, and not cut.
        own.close()
        told = sidecar.end()
    assert "Traceback" not in told
    assert TOKEN not in told
    assert told.count("\n") <= 1, "who opens connections fills no disk"


def test_where_the_system_allows_few_files_nobody_leads_who_could_lose_its_office_by_connections_of_others(
    tmp_path: Path,
) -> None:
    few = room(64)
    with staged(tmp_path) as stage, ExitStack() as held:
        sidecar = stage.start("--ttl", "20s", "--drain", "0.1s", files=64)
        leaders = [sidecar.lead(f"jobs/{number}", keep_s=3)["id"] for number in range(few.candidacies_max)]
        refused = sidecar.client.post("/v1/elections/one/more/candidacies", json={})
        assert (refused.status_code, refused.json()["error"]) == (429, "too-many-candidacies")
        assert "limit on open files" in refused.json()["detail"]
        assert f"ulimit -n {FILES}" in refused.json()["fix"]
        # More streams than those who have the token have places for. Who leads with a single one came first of those that have none.
        beyond = (leaders[1:] + leaders[:1] * few.others_max)[: few.others_max - few.listeners_max]
        states = []
        for one in leaders[:1] * few.token_max + beyond:
            stream = held.enter_context(sidecar.client.stream("GET", f"/v1/candidacies/{one}/stream"))
            states.append(events_of(stream.iter_lines()))  # Kept: it is closed by whoever forgets it.
            assert next(states[-1])[2]["state"] == "leading"
        # Strangers who listen take the rest. Then everybody is being answered, and for each who comes somebody goes.
        for _ in range(few.listeners_max + 2 * few.others_max):
            stranger = held.enter_context(socket.create_connection(("127.0.0.1", sidecar.port), timeout=30))
            stranger.sendall(LISTEN.encode().decode("unicode_escape").encode())
            assert stranger.recv(9) == b"HTTP/1.1 "
        beats = [sidecar.client.post(f"/v1/candidacies/{one}/heartbeat").json()["state"] for one in leaders]
        assert beats == ["leading"] * few.candidacies_max
        held.close()
        assert "no room for more connections" in sidecar.end()

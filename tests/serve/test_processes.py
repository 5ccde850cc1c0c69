"""Real sidecars: killed, frozen and stopped, with clients that are killed too."""

import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tenure.serve.gate import HEAD_BYTES_MAX
from tests.processes import check_eventually, freeze
from tests.serve.outside import BEARER, TENURE, TOKEN, Stage, events_of, raw, staged
from tests.user import at_home

# A client in another process: it stands, says its id when it leads, and goes on until it is killed.
CLIENT = """
import sys, httpx
url, how, keep_s = sys.argv[1:]
client = httpx.Client(base_url=url, headers={"Authorization": "Bearer TOKEN"}, timeout=30)
found = client.post("/v1/elections/jobs/candidacies", json={"keep_s": float(keep_s), "ttl_s": 60}).json()
while found["state"] == "waiting":
    found = client.get(f"/v1/candidacies/{found['id']}?wait_s=20").json()
if how == "stream":
    with client.stream("GET", f"/v1/candidacies/{found['id']}/stream") as stream:
        for line in stream.iter_lines():
            print(found["token"], flush=True)
while True:
    print(found["token"], flush=True)
    found = client.get(f"/v1/candidacies/{found['id']}?wait_s=20").json()
""".replace("TOKEN", TOKEN)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with staged(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    ("how", "keep_s", "by"),
    [("polls", 2, signal.SIGKILL), ("stream", 60, signal.SIGKILL), ("polls", 2, signal.SIGSTOP)],
)
def test_a_client_that_is_killed_or_frozen_loses_its_office_long_before_the_lease_would_end(
    stage: Stage, how: str, keep_s: float, by: signal.Signals
) -> None:
    sidecar = stage.start()
    words = [sys.executable, "-c", CLIENT, sidecar.url, how, str(keep_s)]
    client = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    token = int(client.stdout.readline())
    try:
        client.send_signal(by)
        gone_s = time.monotonic()
        check_eventually(lambda: sidecar.status("/leader/jobs") == 503)
        assert time.monotonic() - gone_s < 25  # Its lease lasts 60 s, and so does its own time if it has a stream.
        assert sidecar.lead("jobs")["token"] > token
    finally:
        client.kill()
        client.communicate()


def test_a_sidecar_that_was_frozen_past_its_lease_says_so_at_its_first_answer(stage: Stage) -> None:
    old, new = stage.start("--stand", "jobs"), stage.start("--stand", "jobs", "--no-history")
    check_eventually(lambda: 200 in {old.status("/leader/jobs"), new.status("/leader/jobs")})
    if old.status("/leader/jobs") != 200:
        old, new = new, old
    assert new.status("/leader/jobs") == 503
    assert new.status("/standby/jobs") == 200
    freeze(old.pid, stage.store)
    check_eventually(lambda: new.status("/leader/jobs") == 200)
    # What it was asked while it was frozen is what it answers first.
    with socket.create_connection(("127.0.0.1", old.port), timeout=30) as connection:
        connection.sendall(b"GET /leader/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        old.started.send_signal(signal.SIGCONT)
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 503"), answer
    assert new.status("/leader/jobs") == 200


def test_a_signal_releases_every_office_after_clients_were_told_and_another_leads_at_once(stage: Stage) -> None:
    old = stage.start("--stand", "jobs")
    check_eventually(lambda: old.status("/leader/jobs") == 200)
    held = old.lead("client/s", keep_s=30, ttl_s=60)
    new = stage.start("--stand", "jobs", "--stand", "client/s")
    with old.client.stream("GET", f"/v1/candidacies/{held['id']}/stream") as stream:
        told = events_of(stream.iter_lines())
        assert next(told)[2]["state"] == "leading"
        stopped_s = time.monotonic()
        old.started.terminate()
        assert next(found["reason"] for _, _, found in told if found["state"] == "lost") == "shutdown"
    # Closing the stream says that the client has stopped, so nothing of a lease of 60 s is waited for.
    check_eventually(lambda: new.status("/leader/client/s") == 200)
    check_eventually(lambda: new.status("/leader/jobs") == 200)
    said = old.started.communicate(timeout=30)[1]
    assert time.monotonic() - stopped_s < 20
    assert old.started.returncode == 0, said
    assert "Traceback" not in said


def test_whoever_waits_for_an_answer_gets_one_when_the_sidecar_is_stopped_and_half_a_request_keeps_nobody(
    stage: Stage,
) -> None:
    sidecar = stage.start("--stand", "jobs")
    check_eventually(lambda: sidecar.status("/leader/jobs") == 200)
    stood = sidecar.post("/v1/elections/jobs/candidacies")
    half = b"POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\n{"
    with ThreadPoolExecutor() as threads, socket.create_connection(("127.0.0.1", sidecar.port), timeout=30) as other:
        other.sendall(half)
        look = threads.submit(sidecar.client.get, f"/v1/candidacies/{stood['id']}?wait_s=60")
        lock = threads.submit(sidecar.client.post, "/v1/locks/jobs", json={"wait_s": 60})
        held = "/v1/elections/jobs"
        check_eventually(lambda: sidecar.client.get(held).json()["here"]["clients"] == 2)
        sidecar.started.terminate()
        assert look.result(30).json()["reason"] == "shutdown"
        assert (lock.result(30).status_code, lock.result().json()["error"]) == (503, "leaving")
        said = sidecar.started.communicate(timeout=30)[1]
    assert (sidecar.started.returncode, said) == (0, "")


def test_a_client_that_does_not_stop_keeps_no_sidecar_from_ending(stage: Stage) -> None:
    sidecar = stage.start("--drain", "0.5s")
    sidecar.lead("jobs", keep_s=60, ttl_s=60)
    begun_s = time.monotonic()
    said = sidecar.end()
    assert time.monotonic() - begun_s < 10
    assert (sidecar.started.returncode, "Traceback" in said) == (0, False)
    assert stage.start().lead("jobs")["token"] > 1


def test_a_unix_socket_is_for_its_user_alone_and_is_taken_over_from_who_was_killed(stage: Stage) -> None:
    path = stage.folder / "sidecar.sock"
    killed = stage.start(listen=f"unix:{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert killed.lead("jobs")["token"] == 1
    assert "in use" in stage.refused(listen=f"unix:{path}")
    killed.end(signal.SIGKILL)
    again = stage.start(listen=f"unix:{path}")
    assert again.client.get("/health", headers={"Host": "any.name"}).status_code == 200  # No browser reaches it.
    again.end()
    assert not path.exists()


def test_events_are_heard_as_they_happen_and_again_from_where_one_left_off(stage: Stage) -> None:
    sidecar = stage.start()
    with sidecar.client.stream("GET", "/v1/events?election=jobs") as stream:
        told = events_of(stream.iter_lines())
        held = sidecar.lead("jobs")
        number = next(number for number, kind, found in told if (kind, found["fact"]) == ("fact", "elected"))
        sidecar.lead("others")
        assert sidecar.client.delete(f"/v1/candidacies/{held['id']}").status_code == 200
        assert {found["election"] for _, _, found in [next(told), next(told)] if "election" in found} == {"jobs"}
    with sidecar.client.stream("GET", "/v1/events?election=jobs", headers={"Last-Event-ID": number}) as stream:
        told = events_of(stream.iter_lines())
        assert "left" in {found["fact"] for _, _, found in [next(told), next(told), next(told)]}
    with sidecar.client.stream("GET", "/v1/events", headers={"Last-Event-ID": "elsewhere-7"}) as stream:
        assert next(events_of(stream.iter_lines()))[1] == "missed"
    with sidecar.client.stream("GET", "/v1/events") as stream:
        assert any(kind == "board" for _, kind, _ in events_of(stream.iter_lines()))


def test_the_page_of_a_sidecar_that_was_just_started_knows_who_led_before(stage: Stage) -> None:
    old = stage.start()
    led = old.lead("jobs")
    old.client.delete(f"/v1/candidacies/{led['id']}")
    old.end()
    new = stage.start()

    def tokens() -> list[int]:
        rows = new.client.get("/v1/board").json()["elections"]
        return [stint["token"] for row in rows for stint in row["timeline"]]

    check_eventually(lambda: tokens() == [led["token"]])
    tenures = new.client.get("/v1/elections/jobs/history").json()["tenures"]
    assert [(one["token"], one["reason"]) for one in tenures] == [(led["token"], "resigned")]


def test_without_what_it_needs_the_command_says_how_to_install_it(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None; sys.argv[1:] = ['serve']; from tenure.cli.main import main; main()"
    )
    words = [sys.executable, "-c", code]
    answer = subprocess.run(words, env=at_home(tmp_path), capture_output=True, text=True, timeout=30, check=False)
    assert answer.returncode == 2
    assert "pip install 'tenure[serve]'" in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_requests_that_are_none_are_refused_and_the_sidecar_goes_on(stage: Stage) -> None:
    sidecar = stage.start()
    head = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    assert raw(sidecar.port, head + b"X: " + b"x" * (2 * HEAD_BYTES_MAX) + b"\r\n\r\n").startswith(b"HTTP/1.1 4")
    assert raw(sidecar.port, head + b"".join(b"X%d: x\r\n" % n for n in range(200)) + b"\r\n").startswith(
        b"HTTP/1.1 431"
    )
    assert raw(sidecar.port, b"rubbish\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert raw(sidecar.port, b"GET /health HTTP/1.1\r\n\r\n").startswith(
        b"HTTP/1.1 400"
    )  # It has to say whom it means.
    absolute = b"GET http://evil.example/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    assert b"no-such-path" in raw(sidecar.port, absolute, until=b"}")
    for odd in (b"GET /leader/\xff HTTP/1.1", b"GET /leader/\x00 HTTP/1.1", b"GET /leader/a b HTTP/1.1"):
        assert raw(sidecar.port, odd + b"\r\nHost: 127.0.0.1\r\n\r\n").startswith(b"HTTP/1.1 400"), odd
    huge = b"POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n"
    assert raw(sidecar.port, huge).startswith(b"HTTP/1.1 413")
    chunked = b"POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert raw(sidecar.port, chunked + b"8000\r\n" + b" " * 0x8000 + b"\r\n").startswith(b"HTTP/1.1 413")
    upgrade = b"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert raw(sidecar.port, upgrade).startswith(b"HTTP/1.1 ")
    assert sidecar.status("/health") == 200
    said = sidecar.end()
    assert TOKEN not in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("options", "listen", "word"),
    [
        (["--stand", "a//b"], "127.0.0.1:0", "--stand"),
        (["--token-file", "none"], "127.0.0.1:0", "cannot be read"),
        (["--rate", "0"], "127.0.0.1:0", "--rate"),
        (["--stand", "jobs", "--ttl", "1ms"], "127.0.0.1:0", "must lie between"),
        ([], "127.0.0.1", "HOST:PORT"),
        ([], "127.0.0.1:99999", "HOST:PORT"),
        ([], "unix:relative", "absolute path"),
        ([], "192.0.2.1:80", "cannot be listened on"),
    ],
)
def test_a_setting_that_cannot_work_is_one_line_and_exit_code_2(
    stage: Stage, options: list[str], listen: str, word: str
) -> None:
    said = stage.refused(*options, listen=listen)
    assert word in said
    assert TOKEN not in said


def test_an_address_that_others_can_reach_needs_a_token_or_a_word(stage: Stage) -> None:
    words = [str(TENURE), "serve", "--store", f"sqlite://{stage.store}", "--listen", "0.0.0.0:0"]
    answer = subprocess.run(words, text=True, capture_output=True, env=at_home(stage.folder), timeout=30, check=False)
    assert answer.returncode == 2
    assert "--anybody-may-read" in answer.stderr
    assert BEARER["Authorization"] not in answer.stderr

"""``etcdctl elect`` and ``etcdctl lock`` behind the commands and events of the Go peer. Each campaign is a process of its own.

Arguments: the program, elect|lock, endpoints, name, ttl in seconds (of a lock; an election of etcdctl has 60). What
etcdctl prints is dated when it is read, and a resignation when the signal is sent: it leads for a little longer than that.
"""

import base64
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from typing import IO

from tests.peers.lines import in_background, obey, say

ASK_S = 0.005
ASK_MAX_S = 10


class Peer:
    """One candidate: it stands once at a time."""

    def __init__(self, program: str, kind: str, endpoints: str, name: str, ttl_s: str) -> None:
        assert kind in ("elect", "lock"), f"{kind} is neither elect nor lock"
        self.program, self.kind, self.name, self.ttl_s = program, kind, name, ttl_s
        self.environment = {**os.environ, "ETCDCTL_ENDPOINTS": endpoints}
        self.member = endpoints.partition(",")[0]
        self.child: subprocess.Popen[str] | None = None
        self.observer: subprocess.Popen[str] | None = None

    def campaign(self, value: str) -> None:
        before = set(self._queue())
        what = ["elect", self.name, value] if self.kind == "elect" else ["lock", f"--ttl={self.ttl_s}", self.name]
        self.child = self._start(*what)
        in_background(lambda: self._stand(before, _lines_of(self.child)))

    def resign(self, _: str) -> None:
        assert self.child is not None
        say("leaving")
        self.child.send_signal(signal.SIGTERM)
        self.child.wait()
        say("left")

    def observe(self, _: str) -> None:
        self.observer = self._start("elect", "--listen", "--write-out=json", self.name)
        in_background(lambda: _tell_what_is_seen(_lines_of(self.observer)))

    def end(self) -> None:
        for process in (self.child, self.observer):
            if process is not None:
                process.kill()
                process.wait()

    def _stand(self, before: set[str], printed: IO[str]) -> None:
        while self._queue().keys() <= before:  # A new key is ours, unless somebody else stands at this very moment.
            time.sleep(ASK_S)
        say("standing")
        own = printed.readline().strip()
        say("leading", time.monotonic_ns(), token=self._queue()[own])

    def _queue(self) -> dict[str, int]:
        """Who is in the queue: keys, and the revision at which each was created."""
        # By the gateway, since a process for every look would take longer than all that is looked at.
        connection = http.client.HTTPConnection(self.member, timeout=ASK_MAX_S)
        prefix = f"{self.name}/".encode()
        asked = {"key": _encoded(prefix), "range_end": _encoded(prefix[:-1] + b"0")}  # 0 is what follows a slash
        try:
            connection.request("POST", "/v3/kv/range", json.dumps(asked))
            answer = json.load(connection.getresponse())
        finally:
            connection.close()
        return {_text(entry["key"]): int(entry["create_revision"]) for entry in answer.get("kvs", [])}

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [self.program, *arguments]
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, text=True)


def _lines_of(process: subprocess.Popen[str] | None) -> IO[str]:
    assert process is not None
    assert process.stdout is not None
    return process.stdout


def _tell_what_is_seen(printed: IO[str]) -> None:
    for line in printed:
        for entry in json.loads(line)["kvs"]:
            say("observed", value=_text(entry["value"]))


def _encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode()


if __name__ == "__main__":
    peer = Peer(*sys.argv[1:])
    try:
        obey({"campaign": peer.campaign, "resign": peer.resign, "observe": peer.observe})
    finally:
        peer.end()

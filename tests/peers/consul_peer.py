"""``consul lock`` behind the commands and events of the Go peers. Each campaign is a process of its own.

Arguments: the program, lock, name. Its session lives for 15 s: it has no setting for that. The command that it runs under the
lock says when it is there and ends when its stdin does, so office is held a little longer than from ``leading`` to
``leaving``. Where Consul is comes from CONSUL_HTTP_ADDR.
"""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from tests.peers.lines import in_background, obey, say

ASK_S = 0.005
ASK_MAX_S = 10
BODY = ("/bin/sh", "-c", "echo here; exec cat")


class Peer:
    """One candidate: it stands once at a time."""

    def __init__(self, program: str, kind: str, name: str) -> None:
        assert kind == "lock", f"{kind} is not lock"
        self.program, self.name = program, name
        self.server = urlsplit(os.environ["CONSUL_HTTP_ADDR"]).netloc
        self.child: subprocess.Popen[str] | None = None
        self.resigned = threading.Event()

    def campaign(self, value: str) -> None:
        session = f"{value} {time.monotonic_ns()}"
        self.resigned.clear()
        command = [self.program, "lock", "-shell=false", "-pass-stdin", f"-name={session}", self.name, *BODY]
        child = self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        in_background(lambda: self._stand(session, child))

    def resign(self, _: str) -> None:
        assert self.child is not None
        assert self.child.stdin is not None
        self.resigned.set()
        say("leaving")
        self.child.stdin.close()
        self.child.wait()
        say("left")

    def end(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.wait()

    def _stand(self, session: str, child: "subprocess.Popen[str]") -> None:
        # Consul has no queue in which a candidate could be seen, but each has a session.
        while not any(other["Name"] == session for other in self._ask("/v1/session/list")):
            time.sleep(ASK_S)
        say("standing")
        assert child.stdout is not None
        assert child.stdout.readline() == "here\n", f"consul lock ended with {child.wait()}"
        at_ns = time.monotonic_ns()
        [entry] = self._ask(f"/v1/kv/{self.name}/.lock?consistent")
        say("leading", at_ns, token=entry["ModifyIndex"])
        child.wait()
        if not self.resigned.is_set():
            say("lost")

    def _ask(self, path: str) -> list[dict[str, Any]]:
        connection = http.client.HTTPConnection(self.server, timeout=ASK_MAX_S)
        try:
            connection.request("GET", path)
            answer: list[dict[str, Any]] = json.load(connection.getresponse())
        finally:
            connection.close()
        return answer


if __name__ == "__main__":
    peer = Peer(*sys.argv[1:])
    try:
        obey({"campaign": peer.campaign, "resign": peer.resign})
    finally:
        peer.end()

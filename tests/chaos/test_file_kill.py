"""Leaders follow each other and are killed with -9 at random instants: no write that was acknowledged is lost, none is stale."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.errors import StaleToken
from tenure.sinks import FileSink, fences_of
from tests.files.files_rig import FENCE, term

LEADERS = 6
# Seals or does not, then appends to a list and says so, until it is killed or refused.
LEADER = """
import json, sys
import anyio
from tests.files.files_rig import FENCE, term
from tenure.errors import StaleToken
from tenure.sinks import FileSink

folder, token = sys.argv[1], int(sys.argv[2])
sink = FileSink(folder, wait_s=30)
if token % 2:
    anyio.run(sink.seal, FENCE, token)
files, number = sink.blocking(term(token)), 0
while True:
    number += 1
    try:
        files.update("list", lambda old: json.dumps([*json.loads(old or b"[]"), [token, number]]).encode())
    except StaleToken:
        print("stale", flush=True)
        break
    print(number, flush=True)
"""


class Leaders:
    """Processes that lead one after the other, and what they were told."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.killed = folder, 0
        self.acknowledged: list[list[int]] = []

    def start(self, token: int) -> "subprocess.Popen[str]":
        """Start one and wait until it has written: whoever came before is stale from then on."""
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        command = [sys.executable, "-c", LEADER, str(self.folder), str(token)]
        leader = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        assert leader.stdout
        self.acknowledged += [[token, int(leader.stdout.readline())] for _ in range(random.randint(1, 3))]
        return leader

    def kill(self, leader: "subprocess.Popen[str]") -> None:
        leader.kill()
        self.killed += 1

    def end(self, leader: "subprocess.Popen[str]", token: int) -> None:
        """Wait for its end: it was killed, or it is refused."""
        assert leader.stdout
        with leader.stdout as rest:  # communicate() would pass by the lines that readline() has read ahead.
            self.acknowledged += [[token, int(line)] for line in rest.read().split() if line.isdigit()]
        leader.wait(60)


def test_killed_leaders_lose_nothing_and_land_nothing_late(tmp_path: Path) -> None:
    leaders = Leaders(tmp_path)
    before = leaders.start(1)
    for token in range(2, LEADERS + 1):
        if random.random() < 0.6:
            leaders.kill(before)
        leader = leaders.start(token)
        leaders.end(before, token - 1)
        before = leader
    leaders.kill(before)
    leaders.end(before, LEADERS)
    found = json.loads((tmp_path / "list").read_text())
    assert found == sorted(found), "a stale write has landed"
    lost = [entry for entry in leaders.acknowledged if entry not in found]
    assert lost == [], "an acknowledged write was lost"
    # At most one write of each leader can be there that nobody was told of: the one in which it was killed.
    assert len(found) <= len(leaders.acknowledged) + leaders.killed
    for old in range(1, LEADERS):
        with pytest.raises(StaleToken, match=f"highest seen is {LEADERS}"):
            FileSink(tmp_path).blocking(term(old)).write_text("list", "stale")
    assert dict(fences_of(tmp_path).highest) == {FENCE: LEADERS}

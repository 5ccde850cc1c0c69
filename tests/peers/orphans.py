"""What becomes of a peer whose driver is killed."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tenure.testing.engines.processes import wait_for
from tests.peers.driver import PATIENCE_S, ROOT, Peer

DRIVER = """
from tests.peers.driver import Peer
ada = Peer("ada", {command}, {environment})
ada.campaign()
ada.wait_leading()
print(ada.pid)
input()
"""


def check_that_nothing_survives_its_driver(peer: Peer) -> None:
    """Start a program like ``peer`` under a driver of its own, kill the driver, and wait for the end of all of them."""
    program = DRIVER.format(command=peer.command, environment=peer.environment)
    driver = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    with driver:
        assert driver.stdout is not None
        session = int(driver.stdout.readline())
        assert _members(session)
        driver.kill()
    assert wait_for(lambda: not _members(session), PATIENCE_S)


def _members(session: int) -> list[int]:
    """The processes of a session: a peer is the first of its own."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):  # It has just ended.
            # Behind the name, which may hold anything: state, parent, group, session.
            state, _, _, number, *_ = (process / "stat").read_text().rpartition(") ")[2].split()
            if int(number) == session and state != "Z":
                found.append(int(process.name))
    return found

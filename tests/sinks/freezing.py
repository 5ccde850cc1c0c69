"""How tests start a leader that is to be frozen inside a transaction, freeze it, and let it go on."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenure.testing.engines.processes import wait_for

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60


class Frozen:
    """A process that is inside a transaction, and stopped."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def goes_on(self) -> str:
        """Let it run, and return how its transaction ended."""
        os.kill(self._process.pid, signal.SIGCONT)
        said, _ = self._process.communicate("go on\n", timeout=PATIENCE_S)
        return said.strip()


@contextmanager
def frozen(shape: str, url: str, fence: str, token: int, statement: str) -> Iterator[Frozen]:
    command = [sys.executable, "-m", "tests.sinks.frozen", shape, url, fence, str(token), statement]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "inside\n"
            os.kill(process.pid, signal.SIGSTOP)
            state = Path(f"/proc/{process.pid}/stat")
            assert wait_for(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", PATIENCE_S)
            yield Frozen(process)
        finally:
            process.kill()

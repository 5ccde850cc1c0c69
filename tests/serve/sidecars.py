"""Sidecars as processes of their own, for pages to look at."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tenure.testing.engines.ports import claim_ports
from tests.processes import check_eventually
from tests.user import at_home

COMMAND = Path(sys.executable).parent / "tenure"
SECRET = "a-token-that-nobody-guesses-0123456789"


class Sidecars:
    """Sidecars over one file, each at a port of its own; what is killed can be started again."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._running = folder, dict[int, subprocess.Popen[bytes]]()
        self.claims = claim_ports(2, "127.0.0.1")
        (folder / "token").write_text(SECRET)

    def start(self, which: int, *more: str) -> str:
        """Start one; returns its URL once it answers."""
        port = self.claims[which].port
        place = [f"--store=sqlite://{self._folder}/elections.db", f"--listen=127.0.0.1:{port}", "--ttl=6s"]
        words = [
            str(COMMAND),
            "serve",
            *place,
            f"--token-file={self._folder}/token",
            f"--instance=sidecar {which}",
            *more,
        ]
        with (self._folder / f"{which}.log").open("ab") as log:
            self._running[which] = subprocess.Popen(words, env=at_home(self._folder), stdout=log, stderr=log)
        url = f"http://127.0.0.1:{port}"
        check_eventually(lambda: self._answers(f"{url}/ready"))
        return url

    def kill(self, which: int) -> None:
        process = self._running.pop(which)
        process.kill()
        process.wait()

    def end(self) -> None:
        for which in list(self._running):
            self.kill(which)
        for claim in self.claims:
            claim.release()

    def _answers(self, url: str) -> bool:
        try:
            with urlopen(url, timeout=5) as answer:  # noqa: S310  (our own)
                return int(answer.status) == 200
        except (URLError, OSError):
            return False


@contextmanager
def sidecars(folder: Path) -> Iterator[Sidecars]:
    with ExitStack() as stack:
        made = Sidecars(folder)
        stack.callback(made.end)
        yield made

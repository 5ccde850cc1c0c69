"""A company: real processes, the signals that strike them, and what they say.

Whatever happens, no process is left: leaving the company kills those that run, also the frozen ones. If the director dies
without leaving, they end by themselves (``telling.py``).
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, Final, Self

from tenure.cli.demo.candidate import EXIT_STALE
from tenure.cli.demo.happening import Happening, StoryBroken, What
from tenure.cli.demo.show import Audience
from tenure.clock import BootClock
from tenure.errors import ConfigError

_STRIKES: Final = {What.FROZEN: signal.SIGSTOP, What.WOKEN: signal.SIGCONT, What.KILLED: signal.SIGKILL}
# Beyond what the leases take. To start Python on a busy machine takes seconds; nothing else takes long.
_PATIENCE_S: Final = 20.0


@contextmanager
def folder_of_the_demo() -> Iterator[Path]:
    """Make a folder that is gone at the end. Only if the director is killed, it stays."""
    try:
        with TemporaryDirectory(prefix="tenure-demo-") as folder:
            yield Path(folder)
    except sqlite3.Error as error:
        rule = f"must be a folder with room for the files of the demo: {error}"
        raise ConfigError("TMPDIR", gettempdir(), rule) from None


class Company:
    """Processes that play together: ``with Company(…) as company``. Whatever happens is shown at once.

    ``folder`` is where their standard errors go, and ``patience_s`` how long a thing that must happen is waited for.
    """

    advice = ""  # what somebody may do about a story that did not happen

    def __init__(self, folder: Path, act: int, show: Audience, patience_s: float) -> None:
        self.act = act
        self._folder, self._patience_s = folder, patience_s + _PATIENCE_S
        self.history: list[Happening] = []
        self._show = show
        self.now = BootClock().now
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._readers: list[threading.Thread] = []
        self._said: SimpleQueue[tuple[str, dict[str, Any]] | None] = SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()  # Does nothing to one that has ended and was waited for.
        for process in self._processes.values():
            process.wait()
        for reader in self._readers:
            reader.join()
        for process in self._processes.values():
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def run(self, name: str, module: str, *arguments: str) -> None:
        """Start a process under a name of its own."""
        command = [sys.executable, "-P", "-m", module, *arguments]
        with self._log_of(name).open("wb") as log:
            # A group of its own: Ctrl-C is for the director, who then ends the others one by one.
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, process_group=0
            )
        self._processes[name] = process
        reader = threading.Thread(target=self._read, args=(name, process), daemon=True)
        self._readers.append(reader)
        reader.start()
        self.happened(What.STARTED, name, pid=process.pid)

    def say_to(self, name: str, what: bytes) -> None:
        """Write to a process's standard input."""
        pipe = self._processes[name].stdin
        assert pipe is not None, "every process was started with a pipe"
        try:
            os.write(pipe.fileno(), what)
        except BrokenPipeError as gone:
            raise StoryBroken(f"{name} is gone") from gone

    def strike(self, name: str, what: What, ready: Happening) -> Happening:
        """Freeze, wake or kill a process that holds what it was ready for."""
        struck = {"at_ns": self.now(), "what": what, "token": ready.token, "invoice": ready.invoice}
        self._processes[name].send_signal(_STRIKES[what])
        return self._note(name, struck)  # Now that it is true: whoever reads of it may act on it.

    def happened(self, what: What, who: str, **more: object) -> Happening:
        """Note something that the director did or found."""
        return self._note(who, {"at_ns": self.now(), "what": what, **more})

    def heard(self, who: str, what: What, **more: object) -> None:
        """Hand on what another thread has to say, as if a process had said it."""
        self._said.put((who, {"at_ns": self.now(), "what": what, **more}))

    def abandon(self) -> None:
        """Have whoever waits stop waiting: the story is not played to its end. From any thread."""
        self._said.put(None)

    def wait_for(self, awaited: Callable[[Happening], bool], meaning: str, *, since: int = 0) -> Happening:
        """Return the first thing in the history from ``since`` on that is awaited; it may be yet to happen.

        Raises StoryBroken with ``meaning`` if it does not happen in time.
        """
        for happening in self.history[since:]:
            if awaited(happening):
                return happening
        self._show.waiting(meaning)
        deadline = self.now() + round(self._patience_s * 1e9)
        while (latest := self._next(deadline)) is not None:
            if awaited(latest):
                return latest
        raise StoryBroken(f"waited in vain for {meaning}{self.advice}")

    def watch_until(self, instant: int, meaning: str) -> None:
        """Let things happen until an instant on the boot clock."""
        self._show.waiting(meaning)
        while self._next(instant) is not None:
            pass

    def _next(self, deadline: int) -> Happening | None:
        """Return the next thing that a process says, or None at the deadline."""
        left_ns = deadline - self.now()
        try:
            said = self._said.get(timeout=max(0, left_ns) / 1e9)
        except Empty:
            return None
        if said is None:
            raise StoryBroken("interrupted")
        return self._note(*said)

    def _note(self, who: str, said: dict[str, Any]) -> Happening:
        known = {name: said.pop(name) for name in ("at_ns", "token", "invoice") if name in said}
        happening = Happening(act=self.act, who=who, what=What(said.pop("what")), **known, more=said)
        self.history.append(happening)
        self._show.happened(happening)
        if happening.what is What.ENDED and said["exit_code"] not in (EXIT_STALE, -signal.SIGKILL):
            raise StoryBroken(f"{who} ended with exit code {said['exit_code']}: {self._last_words_of(who)}")
        return happening

    def _read(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        """Hand on what a process says until it ends. Runs on a thread of its own."""
        assert process.stdout is not None, "every process was started with a pipe"
        for line in process.stdout:
            self._said.put((name, json.loads(line)))
        self._said.put((name, {"at_ns": self.now(), "what": What.ENDED, "exit_code": process.wait()}))

    def _log_of(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _last_words_of(self, name: str) -> str:
        lines = self._log_of(name).read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it left no word"

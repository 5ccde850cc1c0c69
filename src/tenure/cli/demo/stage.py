"""The stage: candidates as real processes, the signals that strike them, and what they say.

Whatever happens, no process is left: leaving the stage kills those that run, also the frozen ones. If the director dies
without leaving, they end by themselves (``candidate.py``).
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, Self

from tenure.cli.demo.candidate import EXIT_STALE
from tenure.cli.demo.happening import Happening, StoryBroken, What
from tenure.cli.demo.show import Show
from tenure.clock import BootClock

_STRIKES: Final = {What.FROZEN: signal.SIGSTOP, What.WOKEN: signal.SIGCONT, What.KILLED: signal.SIGKILL}
# Beyond what the leases take. To start Python on a busy machine takes seconds; nothing else takes long.
_PATIENCE_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Scene:
    """What the candidates of a stage share: their store, their ledger, and how they write to it."""

    store: Path
    ledger: Path
    ttl_s: float
    fenced: bool


class Stage:
    """The processes of a scene: ``with Stage(…) as stage``. Whatever happens is shown at once."""

    def __init__(self, scene: Scene, act: int, show: Show) -> None:
        self.scene, self.act = scene, act
        self.history: list[Happening] = []
        self._show = show
        self._now = BootClock().now
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._readers: list[threading.Thread] = []
        self._said: SimpleQueue[tuple[str, dict[str, Any]]] = SimpleQueue()

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

    def start(self, name: str) -> None:
        """Start a candidate."""
        scene = self.scene
        command = [sys.executable, "-P", "-m", "tenure.cli.demo.candidate", name, str(scene.store), str(scene.ledger)]
        command += [str(scene.ttl_s), *(["--fenced"] if scene.fenced else [])]
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

    def let_pay(self, name: str) -> None:
        """Let a candidate send the payment that it is ready for."""
        pipe = self._processes[name].stdin
        assert pipe is not None, "every candidate was started with a pipe"
        try:
            os.write(pipe.fileno(), b"\n")
        except BrokenPipeError as gone:
            raise StoryBroken(f"{name} is gone") from gone

    def strike(self, name: str, what: What, ready: Happening) -> Happening:
        """Freeze, wake or kill a candidate that holds a payment that it was ready for."""
        struck = {"at_ns": self._now(), "what": what, "token": ready.token, "invoice": ready.invoice}
        self._processes[name].send_signal(_STRIKES[what])
        return self._note(name, struck)  # Now that it is true: whoever reads of it may act on it.

    def happened(self, what: What, who: str, **more: object) -> Happening:
        """Note something that the director did or found."""
        return self._note(who, {"at_ns": self._now(), "what": what, **more})

    def wait_for(self, awaited: Callable[[Happening], bool], meaning: str, *, since: int = 0) -> Happening:
        """Return the first thing in the history from ``since`` on that is awaited; it may be yet to happen.

        Raises StoryBroken with ``meaning`` if it does not happen in time.
        """
        for happening in self.history[since:]:
            if awaited(happening):
                return happening
        self._show.waiting(meaning)
        deadline = self._now() + round((_PATIENCE_S + 3 * self.scene.ttl_s) * 1e9)
        while (latest := self._next(deadline)) is not None:
            if awaited(latest):
                return latest
        raise StoryBroken(f"waited in vain for {meaning}; on a busy machine, try a longer --ttl")

    def watch_until(self, instant: int, meaning: str) -> None:
        """Let things happen until an instant on the boot clock."""
        self._show.waiting(meaning)
        while self._next(instant) is not None:
            pass

    def _next(self, deadline: int) -> Happening | None:
        """Return the next thing that a candidate says, or None at the deadline."""
        left_ns = deadline - self._now()
        try:
            return self._note(*self._said.get(timeout=max(0, left_ns) / 1e9))
        except Empty:
            return None

    def _note(self, who: str, said: dict[str, Any]) -> Happening:
        known = {name: said.pop(name) for name in ("at_ns", "token", "invoice") if name in said}
        happening = Happening(act=self.act, who=who, what=What(said.pop("what")), **known, more=said)
        self.history.append(happening)
        self._show.happened(happening)
        if happening.what is What.ENDED and said["exit_code"] not in (EXIT_STALE, -signal.SIGKILL):
            raise StoryBroken(f"{who} ended with exit code {said['exit_code']}: {self._last_words_of(who)}")
        return happening

    def _read(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        """Hand on what a candidate says until it ends. Runs on a thread of its own."""
        assert process.stdout is not None, "every candidate was started with a pipe"
        for line in process.stdout:
            self._said.put((name, json.loads(line)))
        self._said.put((name, {"at_ns": self._now(), "what": What.ENDED, "exit_code": process.wait()}))

    def _log_of(self, name: str) -> Path:
        return self.scene.ledger.with_name(f"{name}.log")

    def _last_words_of(self, name: str) -> str:
        lines = self._log_of(name).read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it left no word"

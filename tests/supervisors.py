"""Supervisors of ``tenure run`` and what their commands write, as a test sees both from outside."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from tests.processes import check_eventually, marked

TENURE = Path(sys.executable).parent / "tenure"
Supervisor: TypeAlias = "subprocess.Popen[bytes]"


class Supervisors:
    """A folder with a store, and with a file that the commands append lines to."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder, f"MARK={folder}"
        self.started: list[Supervisor] = []
        (folder / "lines").touch()

    def launch(self, *words: str, program: str, arguments: Sequence[str], stdin: int | None = None) -> Supervisor:
        """Start ``tenure WORDS`` over our store, with a program of Python that is given our file and these arguments."""
        command = [sys.executable, "-I", "-S", "-c", program, "lines", *arguments]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "MARK": str(self.folder)}
        tenure = [str(TENURE), *words, "--store", f"sqlite://{self.folder}/store.db", "--", *command]
        with (self.folder / "errors").open("ab") as errors:
            process = subprocess.Popen(tenure, stdin=stdin, stderr=errors, env=environment, cwd=self.folder)
        self.started.append(process)
        return process

    def words(self) -> list[list[str]]:
        """What the commands have written, in the order of their writes."""
        return [line.split() for line in (self.folder / "lines").read_text().splitlines()]

    def errors(self) -> str:
        """What all supervisors have said."""
        return (self.folder / "errors").read_text()

    def end(self) -> None:
        """Kill all supervisors, and see that nothing is left of what they ran."""
        for process in self.started:
            process.kill()
            process.communicate()
        check_eventually(lambda: not marked(self.mark))  # The guardians have seen to that.
        assert "Traceback" not in self.errors()

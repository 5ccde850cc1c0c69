"""What others can see of a supervisor: a file, an answer over HTTP, a word to systemd."""

import os
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from tenure.apps.run.ready_file import ReadyFile
from tenure.apps.run.ready_http import ReadyServer
from tenure.apps.run.systemd import Systemd
from tenure.office.tenure import Tenure


@dataclass(frozen=True, slots=True)
class Signs:
    """Which of them are wanted."""

    file: Path | None = None
    http: tuple[str, int] | None = None
    notify: bool = False


class Readiness:
    """Ready is who leads and whose command runs. Used on the supervisor's event loop."""

    def __init__(self, signs: Signs, election: str, environment: MutableMapping[str, str]) -> None:
        """Take what systemd has said to us out of ``environment``, if it is to be told. Raises ConfigError."""
        self._term: Tenure | None = None
        self._election = election
        self._file = None if signs.file is None else ReadyFile(signs.file)
        self._server = None if signs.http is None else ReadyServer(*signs.http, election, self._leading)
        self._systemd = Systemd(environment) if signs.notify else None
        self._complained = False

    async def open(self) -> None:
        """Make sure that all of it can be shown, before anybody stands. Raises ConfigError."""
        if self._file is not None:
            self._file.open()
        if self._server is not None:
            await self._server.open()

    def standing(self) -> None:
        """The store is open: from here on this process does what it was started for."""
        if self._systemd is not None:
            self.status(f"standing for {self._election}")
            self._systemd.open()

    def close(self) -> None:
        """Show nothing any more, and leave nothing behind."""
        self.over()
        for sign in (self._file, self._server, self._systemd):
            if sign is not None:
                sign.close()

    @property
    def guardians_words(self) -> tuple[str, ...]:
        """What a guardian has to know to show the file, and to take it away when we cannot."""
        return () if self._file is None else (os.fspath(self._file.hidden), os.fspath(self._file.shown))

    @property
    def is_ready(self) -> bool:
        return self._term is not None

    def begin(self, term: Tenure) -> None:
        """The command runs. The guardian is to be told."""
        self._term = term

    def over(self) -> None:
        """The command is about to end, or has ended."""
        self._term = None
        if self._file is not None:
            self._file.hide()

    def look(self, complain: Callable[[str, str], None]) -> None:
        """After the guardian was told to show the file: say once if it could not."""
        if self._file is not None and self.is_ready and not self._complained and not self._file.is_shown:
            self._complained = True
            complain("not-shown", f"the ready file {self._file.shown} cannot be made any more")

    def status(self, text: str) -> None:
        """Tell systemd how it goes."""
        if self._systemd is not None:
            self._systemd.say(text)

    def stopping(self) -> None:
        """Tell systemd that the end has begun."""
        if self._systemd is not None:
            self._systemd.stopping()

    def _leading(self) -> Tenure | None:
        # By the clock at this instant: whoever was frozen for longer than the lease answers no when it wakes.
        term = self._term
        return term if term is not None and term.reason is None else None

"""What the supervisor says: one line each, on standard error. Standard output is the command's."""

import json
import logging
import os
import select
from contextlib import suppress
from typing import Final

from tenure.errors import redact

_ERROR: Final = 2


class Voice(logging.Handler):
    """Speaks to people, or in JSON. Also takes the warnings of the library, so that nobody else prints them."""

    def __init__(self, *, quiet: bool, as_json: bool) -> None:
        super().__init__(logging.WARNING)
        self._quiet, self._as_json = quiet, as_json

    def say(self, event: str, text: str, **fields: object) -> None:
        """Tell how it goes, unless told to be quiet."""
        if not self._quiet:
            self.complain(event, text, **fields)

    def complain(self, event: str, text: str, **fields: object) -> None:
        """Tell why it ends, in any case."""
        # Hosts were written by others, so what a terminal would obey is taken out. Not by ``redact``: it would hide who
        # leads an election that is called "password". Errors and log records have been through it.
        text = "".join(letter if letter.isprintable() else " " for letter in text)
        line = json.dumps({"event": event, **fields, "text": text}) if self._as_json else f"tenure: {text}"
        with suppress(OSError):  # Nobody listens.
            out = select.poll()
            out.register(_ERROR, select.POLLOUT)
            # If its reader has stopped reading, the line is dropped: waiting for it would keep us from our work.
            if out.poll(0):
                os.write(_ERROR, f"{line}\n".encode(errors="backslashreplace"))

    def emit(self, record: logging.LogRecord) -> None:
        self.say("log", redact(record.getMessage()))

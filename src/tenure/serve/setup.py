"""How one sidecar is to serve: the values that ``tenure serve`` was started with, checked."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tenure.errors import ConfigError
from tenure.serve.gate import RATE_PER_S
from tenure.timing import Timing

TOKEN_BYTES_MIN: Final = 16  # What cannot be guessed: 16 letters and digits drawn at random are 95 bits.
_TOKEN_FILE_BYTES_MAX: Final = 64 * 1024
DRAIN_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Setup:
    """All of it. The defaults are those of a page for people on this machine."""

    timing: Timing = field(default_factory=Timing.of)  # of elections that do not say
    stand: tuple[str, ...] = ()  # elections to stand in for the service beside this
    advertise: str = ""
    tokens: tuple[bytes, ...] = field(default=(), repr=False)  # who sends one of them may write
    read_only: bool = False
    allow_hosts: tuple[str, ...] = ()
    check_host: bool = True
    rate_per_s: float = RATE_PER_S
    drain_s: float = DRAIN_S  # how long leaving waits for clients to stop
    instance: str = ""
    history: bool = False  # whether the tenures that are held here are recorded

    @property
    def writable(self) -> bool:
        """Whether anybody may write at all."""
        return bool(self.tokens) and not self.read_only


def tokens_in(file: Path) -> tuple[bytes, ...]:
    """Return the tokens in a file, one a line: a second one lets clients change over while both are good. Raises ConfigError."""
    try:
        with file.open("rb") as opened:
            content = opened.read(_TOKEN_FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        raise ConfigError("--token-file", file, f"cannot be read: {getattr(error, 'strerror', error)}") from None
    if len(content) > _TOKEN_FILE_BYTES_MAX:
        raise ConfigError("--token-file", file, f"must have at most {_TOKEN_FILE_BYTES_MAX} bytes")
    tokens = tuple(line.strip() for line in content.splitlines() if line.strip())
    make = "make one by: openssl rand -hex 32"
    if not tokens:
        raise ConfigError("--token-file", file, f"has no token in it: {make}")
    for number, token in enumerate(tokens, 1):
        if len(token) < TOKEN_BYTES_MIN or not token.isascii() or b" " in token:
            rule = f"token {number} must have {TOKEN_BYTES_MIN} or more letters and digits, without space: {make}"
            raise ConfigError("--token-file", file, rule)
    return tokens

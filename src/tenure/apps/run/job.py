"""What to run, in which office."""

from dataclasses import dataclass, field
from typing import Final

from tenure.apps.run.readiness import Signs
from tenure.apps.shards.terms import Terms
from tenure.errors import ConfigError
from tenure.timing import Timing

PLACE: Final = "{shard}"  # what stands for the number of a shard in the words of a command


@dataclass(frozen=True, slots=True)
class Job:
    """What to run, in which office."""

    election: str
    command: tuple[str, ...]
    store: str = field(repr=False)  # a URL that may hold secrets
    timing: Timing
    once: bool = False
    wait_s: float | None = None  # None: for ever; 0: not at all
    restart: bool = False
    healthy: str | None = None
    accept_best_effort: bool = False
    signs: Signs = field(default_factory=Signs)
    sharding: Terms | None = None  # None: one command, in one office
    history: bool = False  # whether the tenures are recorded

    def __post_init__(self) -> None:
        if self.sharding is not None and (self.signs.file or self.signs.http):
            rule = "cannot be shown with --shards: some are ours at any time. Ask tenure status, or give --notify alone"
            raise ConfigError("readiness", "--ready-file" if self.signs.file else "--ready-http", rule)
        if self.sharding is not None and not any(PLACE in word for word in self.command):
            rule = f"must have {PLACE} in it, or every shard would be given the same work: CMD --part {PLACE}"
            raise ConfigError("command", " ".join(self.command)[:80], rule)

    def words(self, shard: int) -> tuple[str, ...]:
        """Return the command for one shard; without shards, the command."""
        return (
            self.command if self.sharding is None else tuple(word.replace(PLACE, str(shard)) for word in self.command)
        )

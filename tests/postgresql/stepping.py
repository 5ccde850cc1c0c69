"""Servers whose own clock a test can step, while they run: they ask a library for the time, and that reads it from a file."""

from datetime import timedelta

from tenure.testing.engines import MariaDbCluster, PostgresCluster
from tenure.testing.engines.binaries import fake_clock
from tenure.testing.engines.cluster import Node


class SteppingPostgres(PostgresCluster):
    """One PostgreSQL on such a clock."""

    def command(self, node: Node) -> list[str]:
        return _told_the_time(super().command(node), self.binary.program, node)

    def step_to(self, ahead: timedelta) -> None:
        """Set its clock to be this far ahead of the machine's. It counts from the next look at the clock on."""
        _show(self.nodes[0], ahead)


class SteppingMariaDb(MariaDbCluster):
    """One MariaDB on such a clock."""

    def command(self, node: Node) -> list[str]:
        return _told_the_time(super().command(node), self.binary.program, node)

    def step_to(self, ahead: timedelta) -> None:
        """Set its clock to be this far ahead of the machine's. It counts from the next look at the clock on."""
        _show(self.nodes[0], ahead)


def _told_the_time(command: list[str], program: str, node: Node) -> list[str]:
    _show(node, timedelta())
    told = {
        "LD_PRELOAD": fake_clock(),
        "FAKETIME_TIMESTAMP_FILE": str(node.folder / "clock"),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",  # Whoever sleeps sleeps for as long as it meant to.
    }
    place = command.index(program)
    return [*command[:place], "env", *(f"{name}={value}" for name, value in told.items()), *command[place:]]


def _show(node: Node, ahead: timedelta) -> None:
    written = node.folder / "clock.new"
    written.write_text(f"{ahead.total_seconds():+.0f}\n")
    written.chmod(0o644)
    written.rename(node.folder / "clock")  # Nobody reads half of it.

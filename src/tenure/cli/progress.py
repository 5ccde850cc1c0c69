"""A progress bar for runs that take long: on a terminal only, and on standard error."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class _Bar(Protocol):
    def advance(self, steps: int) -> None: ...


class _NoBar:
    def advance(self, steps: int) -> None: ...


@contextmanager
def progress(unit: str, total: int | None, *, hidden: bool) -> Iterator[_Bar]:
    """Show progress on a terminal, on standard error so that the report can be redirected."""
    if hidden or not sys.stderr.isatty():
        yield _NoBar()
        return
    from rich.console import Console  # noqa: PLC0415  (only a terminal pays for it)
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn(unit), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(unit, total=total)

        class Bar:
            def advance(self, steps: int) -> None:
                shown.advance(task, steps)

        yield Bar()

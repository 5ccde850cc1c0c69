"""Three ways to show the demo as it happens: on a terminal, as plain lines, as JSON."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Self

import click

from tenure.cli.demo.happening import Happening
from tenure.cli.demo.judge import Verdict
from tenure.cli.demo.wording import COLUMNS, Cell, Span, Tone, cells, heading, report
from tenure.clock import BootClock

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_STYLES: Final = {
    Tone.PLAIN: "",
    Tone.GOOD: "bold green",
    Tone.BAD: "bold red",
    Tone.LOUD: "bold yellow",
    Tone.TITLE: "bold",
}
# The least widths that words fit into: 80 columns, with the time and the gaps. More room is shared out in proportion.
_WIDTHS: Final = {"A": 14, "B": 14, "C": 14, "store": 10, "ledger": 14}
_TIME_WIDTH: Final = 8
_WIDTH_MAX: Final = 120
_SVG_WIDTH: Final = 100


class Audience(Protocol):
    """Whoever looks on."""

    def happened(self, happening: Happening) -> None:
        """Something happened."""
        ...

    def waiting(self, meaning: str) -> None:
        """The director waits for something."""
        ...


class Show(Audience, Protocol):
    """And who is told at the end what it came to."""

    def report(self, verdict: Verdict) -> None:
        """It is over."""
        ...


class Json:
    """One object a line for everything that happens, and a last one with the figures."""

    def __init__(self) -> None:
        self._began_ns: int | None = None

    def happened(self, happening: Happening) -> None:
        self._began_ns = happening.at_ns if self._began_ns is None else self._began_ns
        known = {"at_s": (happening.at_ns - self._began_ns) / 1e9, "act": happening.act, "who": happening.who}
        numbers = {"token": happening.token, "invoice": happening.invoice}
        given = {name: number for name, number in numbers.items() if number}
        click.echo(json.dumps({**known, "what": happening.what, **given, **happening.more}))

    def waiting(self, meaning: str) -> None:
        pass

    def report(self, verdict: Verdict) -> None:
        click.echo(json.dumps({"what": "figures", **asdict(verdict)}))


class _Timeline(ABC):
    """What the terminal and the plain lines have in common: the words, and the order they come in."""

    def __init__(self, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        self._history: list[Happening] = []

    def happened(self, happening: Happening) -> None:
        if not self._history or self._history[-1].act != happening.act:
            self._heading(heading(happening.act, self._ttl_s))
        self._history.append(happening)
        if shown := cells(happening, self._history):
            self._row((happening.at_ns - self._history[0].at_ns) / 1e9, shown)

    def report(self, verdict: Verdict) -> None:
        for line in report(verdict, self._ttl_s):
            self._line(line)

    @abstractmethod
    def _heading(self, lines: Sequence[str]) -> None: ...

    @abstractmethod
    def _row(self, at_s: float, shown: Sequence[Cell]) -> None: ...

    @abstractmethod
    def _line(self, line: Sequence[Span]) -> None: ...


class Plain(_Timeline):
    """Lines for pipes, files and people without a terminal."""

    def waiting(self, meaning: str) -> None:
        pass

    def _heading(self, lines: Sequence[str]) -> None:
        click.echo("\n" + "\n".join(lines))

    def _row(self, at_s: float, shown: Sequence[Cell]) -> None:
        for cell in shown:
            click.echo(f"{at_s:7.3f} s  {cell.column:<7} {cell.text}")

    def _line(self, line: Sequence[Span]) -> None:
        click.echo("".join(span.text for span in line).rstrip(" "))


class Terminal(_Timeline):
    """A timeline with a column for each candidate, the store and the ledger. Live inside ``with``."""

    def __init__(self, console: "Console", ttl_s: float) -> None:
        from rich.live import Live  # noqa: PLC0415  (only a terminal pays for it)

        super().__init__(ttl_s)
        self._console = console
        room = min(console.width, _WIDTH_MAX) - _TIME_WIDTH - len(COLUMNS)
        self._widths = {name: max(1, width * room // sum(_WIDTHS.values())) for name, width in _WIDTHS.items()}
        self._now = BootClock().now
        self._awaited = ""
        self._live = Live(console=console, get_renderable=self._status, refresh_per_second=10, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def waiting(self, meaning: str) -> None:
        self._awaited = meaning

    def _status(self) -> "Text":
        from rich.text import Text  # noqa: PLC0415

        if not self._history:
            return Text("")
        elapsed_s = (self._now() - self._history[0].at_ns) / 1e9
        return Text(f"{elapsed_s:7.1f}  waiting for {self._awaited}", style="dim")

    def _heading(self, lines: Sequence[str]) -> None:
        self._console.print()
        self._line([Span(lines[0], Tone.TITLE)])
        for line in lines[1:]:
            self._line([Span(line)])
        self._grid("seconds", {name: Cell(name, name, Tone.TITLE) for name in COLUMNS})

    def _row(self, at_s: float, shown: Sequence[Cell]) -> None:
        self._grid(f"{at_s:.3f}", {cell.column: cell for cell in shown})

    def _grid(self, first: str, row: dict[str, Cell]) -> None:
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(width=_TIME_WIDTH - 1, justify="right")
        for width in self._widths.values():
            grid.add_column(width=width)
        found = [row.get(name, Cell(name, "")) for name in COLUMNS]
        grid.add_row(Text(first, style="dim"), *(Text(cell.text, style=_STYLES[cell.tone]) for cell in found))
        self._console.print(grid)

    def _line(self, line: Sequence[Span]) -> None:
        from rich.text import Text  # noqa: PLC0415

        self._console.print(Text.assemble(*((span.text, _STYLES[span.tone]) for span in line)))


def save_svg(path: Path, history: Sequence[Happening], verdict: Verdict, ttl_s: float) -> None:
    """Draw a run that was played, as a terminal would have shown it at its end."""
    from rich.console import Console  # noqa: PLC0415  (only who asks for it pays)

    console = Console(record=True, file=StringIO(), width=_SVG_WIDTH)
    terminal = Terminal(console, ttl_s)
    for happening in history:
        terminal.happened(happening)
    terminal.report(verdict)
    svg = console.export_svg(title="tenure demo")
    # rich asks for a font from a server. A picture loads nothing; the fonts of the reader will do.
    path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL), encoding="utf-8")

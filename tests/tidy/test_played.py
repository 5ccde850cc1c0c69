"""What the documents show of running programs is what they do: terminals are played, recordings compared.

A block with a title is a file of that name or, if it is ``console``, a terminal. Terminals are played in the order of the
page, beside its files and our examples: ``$`` starts a command, ``^C`` interrupts it, and any other line is the next that it prints, with
``…`` for what differs from run to run.
"""

import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from tests.user import at_home

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PAGES = [
    page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if ' title="' in page.read_text()
]

_TITLED = re.compile(r'^```(?P<language>\w+) title="(?P<title>[^"]+)"\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
_TEXT = re.compile(r"^```text\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_OF_THE_DEMO = re.compile(r"^(?:ACT \d:|The ledgers of act)", re.MULTILINE)


class Terminal:
    """One terminal of a page: at most one command at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: subprocess.Popen[str] | None = None

    def play(self, line: str) -> None:
        """Start a command, interrupt it, or wait for what it must print next. The deadline is that of the test."""
        if line.startswith("$ "):
            self._start(line.removeprefix("$ "))
        elif line == "^C":
            self._interrupt()
        else:
            self._expect(line)

    def _start(self, command: str) -> None:
        assert self._end() in {None, 0}, f"it fails before {command!r}"
        self._running = subprocess.Popen(
            ["sh", "-c", command],  # noqa: S607
            cwd=self._folder,
            env=at_home(self._folder, PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def _interrupt(self) -> None:
        assert self._running is not None
        os.killpg(self._running.pid, signal.SIGINT)
        self._end()

    def _expect(self, line: str) -> None:
        assert self._running is not None
        assert self._running.stdout is not None
        printed = self._running.stdout.readline().rstrip("\n")
        pattern = ".*".join(re.escape(part) for part in line.split("…"))
        assert re.fullmatch(pattern, printed), f"expected {line!r}, got {printed!r}"

    def _end(self) -> int | None:
        """Wait for the end of the command; returns its exit code, or None if there is none."""
        running, self._running = self._running, None
        if running is None:
            return None
        running.communicate()
        return running.returncode

    def close(self) -> None:
        if self._running is not None and self._running.poll() is None:
            os.killpg(self._running.pid, signal.SIGKILL)
        self._end()


def play(markdown: str, folder: Path) -> int:
    """Play the terminals of a page, in a folder with its files and our examples; returns how many there are."""
    terminals: dict[str, Terminal] = defaultdict(lambda: Terminal(folder))
    (folder / "examples").symlink_to(ROOT / "examples")
    try:
        for block in _TITLED.finditer(markdown):
            if block["language"] != "console":
                (folder / block["title"]).write_text(block["text"])
                continue
            for line in block["text"].splitlines():
                terminals[block["title"]].play(line)
    finally:
        for terminal in terminals.values():
            terminal.close()
    return len(terminals)


def recordings(page: str) -> list[str]:
    """What a page shows of a demo."""
    texts = [block["text"] for block in _TEXT.finditer((ROOT / page).read_text())]
    return [text for text in texts if _OF_THE_DEMO.search(text)]


def shapes(recording: str) -> set[str]:
    """The lines of a demo without what differs from run to run: times, numbers, and which candidate it was."""
    without_numbers = re.sub(r"\d+(?:\.\d+)?", "#", recording)
    return {" ".join(line.split()) for line in re.sub(r"\b[ABC]\b", "X", without_numbers).splitlines()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_terminals_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    assert play(page.read_text(), tmp_path) > 0


def test_the_readme_shows_parts_of_the_whole_recording() -> None:
    [whole] = recordings("docs/explanation/demo.md")
    parts = recordings("README.md")
    assert parts
    assert [part for part in parts if part not in whole] == []


def test_the_recording_is_of_the_demo_as_it_is_today(tmp_path: Path) -> None:
    demo = [str(BIN / "tenure"), "demo"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    today = subprocess.run(demo, env=environment, capture_output=True, text=True, check=True).stdout
    [whole] = recordings("docs/explanation/demo.md")
    assert shapes(whole) - shapes(today) == set()


def test_a_terminal_that_prints_something_else_is_caught(tmp_path: Path) -> None:
    page = '```python title="a.py"\nprint("pid 7 is here")\n```\n\n```console title="T"\n$ python a.py\npid … is here\n```\n'
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.mkdir()
    wrong.mkdir()
    assert play(page, right) == 1
    with pytest.raises(AssertionError, match=r"expected 'pid … is gone', got 'pid 7 is here'"):
        play(page.replace("… is here", "… is gone"), wrong)


def test_a_command_that_fails_is_caught_when_the_next_is_entered(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="it fails before 'true'"):
        play('```console title="T"\n$ exit 3\n$ true\n```\n', tmp_path)


def test_a_line_that_the_demo_never_prints_is_caught() -> None:
    assert shapes("  4.799 s  ledger  fence at 2\n") == shapes(" 12.303 s  ledger  fence at 13\n")
    assert shapes("  4.799 s  ledger  defence at 2\n") - shapes("  4.799 s  ledger  fence at 2\n")

"""A fence that was raised by mistake can be lowered, by who says exactly where it stands, and that is recorded."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from tenure.errors import ConfigError, Refused, StaleToken
from tenure.model import Token
from tenure.sinks import FileSink, SQLiteMark, SQLiteSink, fences_of, lower_fence

FENCE, POISON = "sqlite:///state.db/books", 2**62
WHY = "a test wrote it"


def in_a_folder(folder: Path) -> tuple[Path, Callable[[int], None]]:
    def write(token: int) -> None:
        FileSink(folder).blocking(SimpleNamespace(fence=FENCE, token=token)).write_text("x", str(token))

    return folder, write


def in_a_database(folder: Path) -> tuple[Path, Callable[[int], None]]:
    path = folder / "ledger #1?.db"

    def write(token: int) -> None:
        with SQLiteSink(path) as sink, sink.transaction(SimpleNamespace(fence=FENCE, token=token)):
            pass

    return path, write


@pytest.fixture(params=[in_a_folder, in_a_database])
def poisoned(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Callable[[int], None]]:
    target, write = request.param(tmp_path)
    write(7)
    write(POISON)
    with pytest.raises(StaleToken):
        write(8)
    return target, write


Poisoned = tuple[Path, Callable[[int], None]]


def test_a_fence_is_lowered_and_it_says_who_when_and_why(poisoned: Poisoned) -> None:
    target, write = poisoned
    repair = lower_fence(target, FENCE, was=POISON, to=7, why=WHY, who="ada")
    fences = fences_of(target)
    assert (dict(fences.highest), fences.repairs) == ({FENCE: 7}, (repair,))
    assert (repair.fence, repair.was, repair.now, repair.who, repair.why) == (FENCE, POISON, 7, "ada", WHY)
    assert repair.when.endswith("+00:00")
    write(8)
    with pytest.raises(StaleToken, match="highest seen is 8"):
        write(7)
    assert lower_fence(target, FENCE, was=8, to=7, why="again").who
    assert len(fences_of(target).repairs) == 2


@pytest.mark.parametrize(
    ("was", "to", "why"),
    [
        (POISON - 1, 7, WHY),
        (POISON + 1, 7, WHY),
        (7, 6, WHY),
        (POISON, POISON, WHY),
        (POISON, -1, WHY),
        (POISON, 7, " "),
    ],
)
def test_whoever_does_not_know_where_it_stands_changes_nothing(was: int, to: int, why: str, poisoned: Poisoned) -> None:
    target, _ = poisoned
    with pytest.raises(ConfigError):
        lower_fence(target, FENCE, was=was, to=to, why=why)
    assert fences_of(target) == ({FENCE: POISON}, ())


def test_another_fence_is_left_alone(poisoned: Poisoned) -> None:
    target, _ = poisoned
    with pytest.raises(ConfigError, match="which is 0"):
        lower_fence(target, "another", was=POISON, to=7, why=WHY)
    assert fences_of(target) == ({FENCE: POISON}, ())


def test_what_has_no_fences_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database " * 100)
    with closing(sqlite3.connect(tmp_path / "plain.db")) as connection:
        connection.execute("CREATE TABLE x (y)")
    for name in ("missing", "plain.db", "."):
        with pytest.raises(ConfigError, match="must be a folder or a database that has fences"):
            fences_of(tmp_path / name)
    with pytest.raises(Refused, match="not a database"):
        fences_of(tmp_path / "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain.db", "text"]


def test_a_mark_is_mended_alike(tmp_path: Path) -> None:
    mark = SQLiteMark(tmp_path / "mark.db")
    mark.admit(FENCE, Token(POISON))
    lower_fence(tmp_path / "mark.db", FENCE, was=POISON, to=7, why=WHY)
    mark.admit(FENCE, Token(8))
    with pytest.raises(StaleToken):
        mark.admit(FENCE, Token(7))
    mark.close()


def test_a_seal_during_the_repair_wins(tmp_path: Path) -> None:
    anyio.run(FileSink(tmp_path).seal, FENCE, Token(POISON))
    anyio.run(FileSink(tmp_path).seal, FENCE, Token(POISON + 5))
    with pytest.raises(ConfigError, match=f"which is {POISON + 5}: look again"):
        lower_fence(tmp_path, FENCE, was=POISON, to=7, why=WHY)
    assert fences_of(tmp_path).highest == {FENCE: POISON + 5}


@pytest.mark.parametrize("target", ["redis://127.0.0.1:1", "postgresql://127.0.0.1:1/x", "s3://bucket/"])
def test_a_server_is_not_waited_for_on_an_event_loop(target: str) -> None:
    async def run() -> None:
        with pytest.raises(ConfigError, match="must be asked in a thread"):
            fences_of(target)

    anyio.run(run)


def test_the_command_line_shows_and_lowers(poisoned: Poisoned) -> None:
    target, _ = poisoned
    command = Path(sys.executable).parent / "tenure"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([command, "fence", *words], capture_output=True, text=True, check=False)

    assert run("show", str(target)).stdout == f"{POISON}  {FENCE}\n"
    wrong = run("lower", str(target), FENCE, "--was", "9", "--to", "7", "--why", WHY)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert f"was = 9: must be what the fence stands at, which is {POISON}" in wrong.stderr
    assert run("lower", str(target), FENCE, "--was", str(POISON), "--to", "7", "--why", WHY).returncode == 0
    page = json.loads(run("show", str(target), "--json").stdout)
    assert page["highest"] == {FENCE: 7}
    assert [one["why"] for one in page["repairs"]] == [WHY]
    assert "lowered sqlite:///state.db/books from" in run("show", str(target)).stdout
    missing = run("show", str(target / "missing"))
    assert missing.returncode == 2
    assert "Traceback" not in missing.stderr

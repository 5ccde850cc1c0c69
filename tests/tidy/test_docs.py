"""The documents keep up with the code: their snippets run, their links lead somewhere, their form is kept.

- A ``python`` block is executed; the blocks of one page share a namespace. A ``text`` block that follows it directly
  is exactly what it prints.
- In a ``console`` block a line that begins with ``$ tenure`` is run from the root of the repository and must exit with
  0, or with N if the line ends in ``# exit N``. What the block shows below it is for people and is not compared.
- Blocks with a title are files and terminals: ``test_played.py`` plays them.
"""

import ast
import contextlib
import io
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.user import at_home

ROOT = Path(__file__).parents[2]
SNIPPET_PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = sorted({*ROOT.glob("*.md"), *SNIPPET_PAGES})
COMMAND = Path(sys.executable).parent / "tenure"

_FENCE = re.compile(r"^(?P<indent> *)(?P<marks>`{3,}|~{3,}) *(?P<language>[\w-]*)(?: title=\"(?P<title>[^\"]+)\")?")
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_EXIT = re.compile(r"\s+# exit (?P<code>\d+)$")
_CALL = re.compile(r"`(?:\w+\.)*(?P<name>\w+)\(\)`")
_RELEASE = re.compile(r"## \[(?:Unreleased|\d+\.\d+\.\d+)\](?: - \d{4}-\d{2}-\d{2})?")
_KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


class Block(NamedTuple):
    """One fenced block: its language and title, the line of its fence, its text, and whether it follows the one before directly."""

    language: str
    title: str
    line: int
    text: str
    follows: bool


def blocks(markdown: str) -> Iterator[Block]:
    fence: re.Match[str] | None = None
    start, inside, follows = 0, list[str](), False
    for number, line in enumerate(markdown.splitlines(), 1):
        if fence is None:
            if fence := _FENCE.match(line):
                start, inside = number, []
            elif line.strip():
                follows = False
        elif line.strip() == fence["marks"]:
            text = textwrap.dedent("\n".join([*inside, ""]))
            yield Block(fence["language"], fence["title"] or "", start, text, follows)
            fence, follows = None, True
        else:
            inside.append(line)
    assert fence is None, f"the block at line {start} is never closed"


def prose(markdown: str) -> str:
    """The page without its blocks and without inline code."""
    lines, fence = [], ""
    for line in markdown.splitlines():
        opening = _FENCE.match(line)
        if fence:
            fence = "" if line.strip() == fence else fence
        elif opening:
            fence = opening["marks"]
        else:
            lines.append(line)
    return re.sub(r"`[^`]*`", "", "\n".join(lines))


def run_python(markdown: str, page: str) -> list[str]:
    """Execute the python blocks of a page; returns where what they print differs from what the page says."""
    namespace: dict[str, Any] = {"__name__": "snippet"}
    differences, printed = [], ""
    for block in blocks(markdown):
        if block.language == "python" and not block.title:
            # Empty lines in front: a traceback then names the line of the page.
            code = compile("\n" * block.line + block.text, page, "exec")
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(code, namespace)  # noqa: S102  (our own documents)
            printed = output.getvalue()
        elif block.language == "text" and block.follows and printed != block.text:
            differences.append(f"{page}:{block.line} is not what the snippet prints: {printed}")
        else:
            printed = ""
    return differences


def commands(markdown: str) -> Iterator[tuple[list[str], int]]:
    """The commands of a page's console blocks and the exit code that each must have."""
    for block in blocks(markdown):
        if block.language != "console" or block.title:
            continue
        for line in block.text.splitlines():
            if line.startswith("$ tenure"):
                expected = _EXIT.search(line)
                words = shlex.split(line.removeprefix("$ "), comments=True)
                yield words, int(expected["code"]) if expected else 0


def dead_links(markdown: str, folder: Path) -> list[str]:
    targets = [match["target"] for match in _LINK.finditer(prose(markdown))]
    local = [target for target in targets if not re.match(r"[a-z]+:|#", target)]
    return [target for target in local if not (folder / target.partition("#")[0]).exists()]


def changelog_breaches(markdown: str) -> list[str]:
    lines = markdown.splitlines()
    releases = [line for line in lines if line.startswith("## ")]
    kinds = [line for line in lines if line.startswith("### ")]
    entries = re.findall(r"^- (?:.+\n?)(?:  .+\n?)*", markdown, re.MULTILINE)
    breaches = [f"not a release: {line}" for line in releases if not _RELEASE.fullmatch(line)]
    breaches += [f"not a kind of change: {line}" for line in kinds if line.removeprefix("### ") not in _KINDS]
    breaches += [f"not a sentence: {entry}" for entry in entries if not entry.rstrip().endswith(".")]
    if lines[:1] != ["# Changelog"]:
        breaches.append("the title is not Changelog")
    if releases[:1] != ["## [Unreleased]"]:
        breaches.append("the first section is not Unreleased")
    if not entries:
        breaches.append("nothing is told")
    return breaches


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def every_command() -> list[Any]:
    """Every command once, however many pages show it."""
    found = {
        (*words, code): pytest.param(words, code, id=f"{name_of(page)}:{' '.join(words)}")
        for page in SNIPPET_PAGES
        for words, code in commands(page.read_text())
    }
    return list(found.values())


@pytest.mark.parametrize("page", SNIPPET_PAGES, ids=name_of)
def test_python_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_python(page.read_text(), name_of(page)) == []


@pytest.mark.parametrize(("words", "code"), every_command())
def test_commands_exit_as_the_page_says(words: list[str], code: int, tmp_path: Path) -> None:
    answer = subprocess.run(
        [COMMAND, *words[1:]], cwd=ROOT, env=at_home(tmp_path), capture_output=True, text=True, check=False
    )
    assert answer.returncode == code, answer.stdout + answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert dead_links(page.read_text(), page.parent) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_page_has_one_title_at_its_top(page: Path) -> None:
    text = page.read_text()
    assert text.startswith("# ")
    assert len(re.findall(r"^# ", prose(text), re.MULTILINE)) == 1


def test_the_changelog_has_its_form() -> None:
    assert changelog_breaches((ROOT / "CHANGELOG.md").read_text()) == []


def test_the_architecture_names_functions_that_exist() -> None:
    trees = [ast.parse(path.read_text()) for path in (ROOT / "src").rglob("*.py")]
    defined = {
        node.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    named = _CALL.findall((ROOT / "ARCHITECTURE.md").read_text())
    assert named
    assert [name for name in named if name not in defined] == []


def test_the_reference_knows_every_option() -> None:
    from tenure.cli.sim import command

    page = (ROOT / "docs" / "reference" / "cli-sim.md").read_text()
    options = [option for parameter in command.params for option in parameter.opts if option.startswith("--")]
    assert "--seeds" in options
    assert [option for option in options if f"`{option}" not in page] == []


@pytest.mark.parametrize(
    "module", ["tenure", "tenure.sync", "tenure.sinks", "tenure.sinks.http", "tenure.web", "tenure.testing"]
)
def test_the_reference_knows_every_public_name(module: str) -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    section = page.partition(f"## {module}\n")[2].partition("\n## ")[0]
    exported = import_module(module)
    names = getattr(exported, "EXPORTS", None) or exported.__all__
    assert names
    assert [name for name in names if f"| `{name}" not in section] == []


def test_the_reference_is_what_the_docstrings_say(tmp_path: Path) -> None:
    page = ROOT / "docs" / "reference" / "python.md"
    copy = tmp_path / "python.md"
    copy.write_text(page.read_text())
    subprocess.run([sys.executable, ROOT / "tools" / "generate_docs.py", copy], check=True)
    assert copy.read_text() == page.read_text(), "run make docs"


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "adr"
    index = (folder / "README.md").read_text()
    decisions = sorted(folder.glob("[0-9]*.md"))
    headings = ["## Context", "## Decision", "## Consequences", "## What would change our mind"]
    assert [path.name for path in decisions if f"({path.name})" not in index] == []
    for path in decisions:
        assert re.findall(r"^## .*", path.read_text(), re.MULTILINE) == headings, path.name


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    # Not --quiet: with it, mkdocs does not count the warnings that --strict is about.
    builder = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    answer = subprocess.run(builder, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    pages = list(tmp_path.rglob("*.html"))
    fetched = re.compile(r'<(?:script|link|img)\b[^>]*\b(?:src|href)="https?://[^"]*"[^>]*>|class="mermaid"')
    assert pages
    assert {page.name: found for page in pages if (found := fetched.findall(page.read_text()))} == {}


PLANTED = """# Page
```python
x = 1
```
prose
```python
print(x + 1)
```
```text
3
```
```console
$ tenure sim --seeds 1  # exit 2
what it prints
$ make demo
$ tenure sim
```
[gone](gone.md#part), [here](test_docs.py), [web](https://example.org), [part](#part), `[code](code.md)`
"""


def test_a_wrong_output_is_caught() -> None:
    assert run_python(PLANTED, "page") == ["page:9 is not what the snippet prints: 2\n"]
    assert run_python(PLANTED.replace("\n3\n", "\n2\n"), "page") == []


def test_a_broken_snippet_is_caught_and_named_by_its_line() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run_python("# Page\n\n```python\nx = 1\nx / 0\n```\n", "page")
    assert caught.traceback[-1].lineno == 4  # counted from zero


def test_commands_are_found_with_their_exit_codes() -> None:
    assert list(commands(PLANTED)) == [(["tenure", "sim", "--seeds", "1"], 2), (["tenure", "sim"], 0)]


def test_a_dead_link_is_caught() -> None:
    assert dead_links(PLANTED, Path(__file__).parent) == ["gone.md#part"]


def test_an_open_block_is_caught() -> None:
    with pytest.raises(AssertionError, match="the block at line 2 is never closed"):
        list(blocks("# Page\n```python\nx = 1\n"))


@pytest.mark.parametrize(
    ("form", "breach"),
    [
        ("# Changelog\n\n## [Unreleased]\n\n### New\n\n- This.\n", "not a kind of change: ### New"),
        ("# Changelog\n\n## [Unreleased]\n\n### Added\n\n- This\n", "not a sentence: - This\n"),
        ("# Changelog\n\n## [Unreleased]\n\n### Added\n", "nothing is told"),
        ("# Changes\n\n## [Unreleased]\n\n- This.\n", "the title is not Changelog"),
        ("# Changelog\n\n## [1.0.0] - 2030-01-31\n\n- This.\n", "the first section is not Unreleased"),
        ("# Changelog\n\n## [Unreleased]\n\n- This.\n\n## 1.0\n", "not a release: ## 1.0"),
    ],
)
def test_a_changelog_out_of_form_is_caught(form: str, breach: str) -> None:
    assert changelog_breaches(form) == [breach]

"""The reference of the command line keeps up with the commands."""

import re
from functools import partial
from pathlib import Path

import click
import pytest

from tenure.cli.commands import COMMANDS, EXIT_CODES, tenure
from tenure.cli.settings import KEYS

DOCS = Path(__file__).parents[2] / "docs" / "reference"
CLI = (DOCS / "cli.md").read_text(encoding="utf-8")
# Which have pages of their own.
ELSEWHERE = {"sim": ("cli-sim.md",), "plan": ("plan.md",), "lab": ("cli-lab.md", "cli-lab-raft.md")}
HERE = [name for name in COMMANDS if name not in ELSEWHERE]


def command(name: str) -> click.Command:
    found = tenure.get_command(click.Context(tenure), name)
    assert found is not None
    return found


def section(name: str) -> str:
    """What the page says of one command, and of all."""
    common, _, others = CLI.partition("\n## tenure ")
    mine = re.search(rf"(?:^|\n## tenure ){name}\n(.*?)(?=\n## )", others, re.DOTALL)
    assert mine is not None, name
    return common + mine[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_list_with_the_line_of_its_help(name: str) -> None:
    short = COMMANDS[name][1].rstrip(".")
    assert re.search(rf"^\| \[`tenure {name}`\]\([^)]+\) \| {short[0].lower()}{short[1:]} \|$", CLI, re.MULTILINE)


@pytest.mark.parametrize("name", HERE)
def test_every_option_is_in_the_section_of_its_command(name: str) -> None:
    said = section(name) + (section("run") if name == "lock" else "")
    options = {option for parameter in command(name).params for option in parameter.opts if option.startswith("-")}
    assert [option for option in sorted(options) if f"`{option}" not in said] == []


@pytest.mark.parametrize("name", ELSEWHERE)
def test_every_option_is_on_the_pages_of_its_command(name: str) -> None:
    said = CLI.partition("\n## tenure ")[0] + "".join((DOCS / page).read_text() for page in ELSEWHERE[name])
    whole = command(name)
    parts = [whole]
    if isinstance(whole, click.Group):
        context = click.Context(whole)
        parts += [part for part in map(partial(whole.get_command, context), whole.list_commands(context)) if part]
    options = {option for part in parts for parameter in part.params for option in parameter.opts}
    assert [option for option in sorted(options) if option.startswith("--") and f"`{option}" not in said] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_in_its_help(name: str) -> None:
    help_text = command(name).help or ""
    assert "Examples:" in help_text
    assert f"tenure {name}" in help_text


def test_every_exit_code_of_the_help_is_on_the_page() -> None:
    codes = re.findall(r"^  (\d+(?:\+n)?) ", EXIT_CODES, re.MULTILINE)
    assert codes[:2] == ["0", "1"]
    assert [code for code in codes if f"\n| {code.replace('+', ' + ')} |" not in CLI] == []


def test_every_setting_is_on_the_page_of_the_file() -> None:
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    assert [
        key for key in KEYS if f"\n| `{key}` | `TENURE_{key.upper()}` | `--{key.replace('_', '-')}` |" not in page
    ] == []

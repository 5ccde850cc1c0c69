"""Completion as a shell asks for it: commands, options and elections; soon, or nothing, and without a word."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.user import at_home

from tenure import sync

PASSWORD = "hunter2"
PATIENCE_S = 60.0


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return at_home(tmp_path, PATH=path)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store in which three elections were held."""
    url = f"sqlite://{tmp_path}/tenure.db"
    hold(url, "billing/close", "billing/open", "reports")
    return url


def hold(url: str, *names: str) -> None:
    with sync.open_store(url) as opened:
        for name in names:
            with sync.Lock(opened, name):
                pass


def completions(environment: dict[str, str], *words: str) -> list[str]:
    """What the shell is told about the last word."""
    asked = {"_TENURE_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    run = subprocess.run(
        [sys.executable, "-m", "tenure"],
        env=environment | asked,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (run.returncode, run.stderr) == (0, "")
    return [line.partition(",")[2] for line in run.stdout.splitlines() if line]


def elections(environment: dict[str, str], *words: str) -> list[str]:
    """The same, of a store that has some: a machine that cannot name them soon says nothing, and is asked again."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (found := completions(environment, *words)) and time.monotonic() < deadline_s:
        pass
    return found


def test_commands_and_options_are_completed(environment: dict[str, str]) -> None:
    assert completions(environment, "tenure", "re") == ["resign"]
    assert {"run", "lock", "status", "watch", "sim"} <= set(completions(environment, "tenure", ""))
    assert completions(environment, "tenure", "resign", "--w") == ["--wait"]
    assert completions(environment, "tenure", "completion", "") == ["bash", "zsh", "fish"]


@pytest.mark.parametrize("command", ["status", "watch", "resign", "run", "lock"])
def test_elections_of_the_store_are_completed(environment: dict[str, str], store: str, command: str) -> None:
    environment["TENURE_STORE"] = store
    assert elections(environment, "tenure", command, "bil") == ["billing/close", "billing/open"]


def test_elections_of_the_store_on_the_line_are_completed(environment: dict[str, str], store: str) -> None:
    assert elections(environment, "tenure", "status", "--store", store, "") == [
        "billing/close",
        "billing/open",
        "reports",
    ]


def test_a_name_that_a_shell_would_carry_out_or_take_apart_is_not_offered(
    environment: dict[str, str], store: str
) -> None:
    environment["TENURE_STORE"] = store
    hold(store, "x/$(touch${IFS}gone)", "x/`id`", "x/;id", "x y", "~", "x/caf\u00e9-1")
    offered = elections(environment, "tenure", "status", "")
    assert offered == ["billing/close", "billing/open", "reports", "x/caf\u00e9-1"]


@pytest.mark.parametrize(
    "url", ["sqlite:///gone/tenure.db", "memory://", "nonsense", f"pigeon://ada:{PASSWORD}@loft", "sqlite:////"]
)
def test_a_store_that_cannot_be_asked_completes_nothing_and_says_nothing(environment: dict[str, str], url: str) -> None:
    environment["TENURE_STORE"] = url
    assert completions(environment, "tenure", "status", "") == []


def test_completion_makes_no_store_and_warns_of_no_file(environment: dict[str, str], tmp_path: Path) -> None:
    assert completions(environment, "tenure", "status", "") == []
    assert list(tmp_path.iterdir()) == []
    environment["TENURE_STORE"] = f"sqlite://{tmp_path}/tenure.db"
    assert completions(environment, "tenure", "status", "") == []
    assert list(tmp_path.iterdir()) == []
    file = tmp_path / "tenure.toml"
    file.write_text(f'store = "pigeon://ada:{PASSWORD}@loft"', encoding="utf-8")
    file.chmod(0o644)
    assert completions(environment, "tenure", "status", "--config", str(file), "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_says_how_to_install_it(environment: dict[str, str], shell: str) -> None:
    run = subprocess.run(["tenure", "completion", shell], env=environment, capture_output=True, text=True, check=False)  # noqa: S607
    assert (run.returncode, run.stderr) == (0, "")
    assert f"_TENURE_COMPLETE={shell}_complete" in run.stdout
    last = run.stdout.splitlines()[-1]
    assert last.startswith("# To install it")
    assert f"tenure completion {shell}" in last


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_with_the_script(environment: dict[str, str], store: str) -> None:
    typed = """
    eval "$(tenure completion bash)"
    COMP_WORDS=(tenure status rep) COMP_CWORD=2
    _tenure_completion tenure
    echo "${COMPREPLY[@]}"
    """
    environment["TENURE_STORE"] = store
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        run = subprocess.run(["bash", "-c", typed], env=environment, capture_output=True, text=True, check=False)  # noqa: S607
        if run.stdout != "\n" or time.monotonic() > deadline_s:  # Otherwise they could not be named soon enough.
            break
    assert (run.returncode, run.stdout, run.stderr) == (0, "reports\n", "")

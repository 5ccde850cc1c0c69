"""The Makefile: its targets are listed, can be planned, and refuse an old Python plainly."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TARGETS = ["help", "demo", "test", "test-matrix", "check", "engines", "sim", "sim-million", "bench", "docs", "clean"]


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    # When make runs these tests itself, its flags would otherwise reach the make that is being tested.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(["make", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S607


def test_help_lists_every_target_and_is_the_default() -> None:
    answer = make("help")
    assert re.findall(r"^make (\S+) +\S", answer.stdout, re.MULTILINE) == TARGETS
    assert make().stdout == answer.stdout


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_can_be_planned(target: str) -> None:
    answer = make("-n", target)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout


@pytest.mark.parametrize("target", sorted(set(TARGETS) - {"help", "clean"}))
def test_every_target_makes_what_it_needs(tmp_path: Path, target: str) -> None:
    venv = tmp_path / "venv"
    plan = make("-n", target, f"VENV={venv}").stdout
    assert re.search(rf"-m venv {venv}\n.*pip install .*--editable '\.\[dev\]'", plan)


@pytest.mark.parametrize("target", ["help", "clean"])
def test_what_needs_no_installation_makes_none(tmp_path: Path, target: str) -> None:
    assert "pip install" not in make("-n", target, f"VENV={tmp_path}").stdout


def test_the_demo_is_the_command_that_the_end_to_end_tests_run() -> None:
    assert make("-n", "demo", "--assume-old=.venv/.installed").stdout == ".venv/bin/tenure demo\n"


def test_an_old_python_is_refused_in_one_line(tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2" && exit 0\nexit 1\n')
    old.chmod(0o755)
    answer = make("check", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}")
    assert answer.returncode == 2
    assert f"tenure needs Python 3.11 or newer, and {old} is Python 3.9.2" in answer.stderr
    assert not (tmp_path / "venv").exists()


def test_the_build_server_makes_the_engines_and_runs_all_tests() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert [line for line in script.read_text().splitlines() if line.startswith("make")] == [
        "make engines",
        "make test",
    ]


@pytest.fixture
def pretended(tmp_path: Path) -> Path:
    """An installation whose programs write down how they were called, and do nothing else."""
    (tmp_path / "bin").mkdir()
    for name in ("ruff", "mypy", "python", "pytest"):
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/calls\n')
        program.chmod(0o755)
    (tmp_path / ".installed").touch()
    return tmp_path


@pytest.mark.parametrize("target", ["test", "test-matrix"])
def test_the_engines_of_the_package_manager_are_installed_before_any_test_of_them_is_run(
    pretended: Path, target: str
) -> None:
    answer = make(target, f"VENV={pretended}", f"--assume-old={pretended}/.installed")
    assert answer.returncode == 0, answer.stderr
    calls = (pretended / "calls").read_text().splitlines()
    install = calls.index("python tools/install_engines.py")
    assert [call for call in calls if call.startswith("pytest ")] == calls[install + 1 :]
    assert len(calls) > install + 1


@pytest.mark.parametrize("target", ["test", "test-matrix"])
def test_no_test_is_run_if_the_engines_cannot_be_installed_where_they_must_be(pretended: Path, target: str) -> None:
    (pretended / "bin" / "python").write_text("#!/bin/sh\nexit 1\n")
    answer = make(target, f"VENV={pretended}", f"--assume-old={pretended}/.installed")
    assert answer.returncode != 0
    calls = pretended / "calls"
    assert not calls.exists() or "pytest" not in calls.read_text()

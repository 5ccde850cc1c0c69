"""The parts of the supervisor that need no election."""

import json
import logging
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import click
import pytest

from tenure.apps.run import starter
from tenure.apps.run.child import CannotStart, check_command
from tenure.apps.run.commands import next_pause_s
from tenure.apps.run.job import Job
from tenure.apps.run.voice import Voice
from tenure.cli.lock import command as lock
from tenure.cli.run import CommandAfterDashes, wait_of
from tenure.cli.run import command as run
from tenure.errors import ConfigError
from tenure.timing import Timing


def test_the_pause_before_a_restart_doubles_up_to_half_a_minute() -> None:
    pauses_s = [next_pause_s(0.0, 0.1)]
    for _ in range(6):
        pauses_s.append(next_pause_s(pauses_s[-1], 0.1))
    assert pauses_s == [1, 2, 4, 8, 16, 30, 30]


def test_a_command_that_ran_well_is_started_again_soon() -> None:
    assert next_pause_s(16.0, 29.9) == 30
    assert next_pause_s(16.0, 30.0) == 1


@pytest.mark.parametrize(("mode", "code"), [(0o644, 126), (None, 127)])
def test_a_command_on_the_path_is_judged_as_a_shell_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int | None, code: int
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if mode is not None:
        (tmp_path / "tool").touch(mode)
    with pytest.raises(CannotStart) as caught:
        check_command("tool")
    assert caught.value.code == code
    (tmp_path / "tool").touch()
    (tmp_path / "tool").chmod(0o755)
    check_command("tool")


def test_a_job_can_be_printed_without_its_store() -> None:
    assert "hunter2" not in repr(Job("x", ("true",), "vault://ada:hunter2@host", Timing.of()))


@pytest.fixture
def heard(tmp_path: Path) -> Path:
    return tmp_path / "heard"


def spoken(voice: Voice, path: Path) -> str:
    """What a voice says, with standard error led into a file for the while."""
    before = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
        try:
            voice.say("told", "a\x1b[31m b\npassword: ada leads", token=7)
            voice.emit(logging.makeLogRecord({"msg": "vault://ada:hunter2@host"}))
            voice.complain("ended", "why \udcff")
        finally:
            os.dup2(before, 2)
            os.close(before)
    return path.read_text()


def test_what_is_said_is_one_line_without_control_characters_and_a_log_without_secrets(heard: Path) -> None:
    text = spoken(Voice(quiet=False, as_json=False), heard)
    assert text == "tenure: a [31m b password: ada leads\ntenure: vault://ada:***@host\ntenure: why  \n"


def test_who_is_quiet_still_says_why_it_ends(heard: Path) -> None:
    assert spoken(Voice(quiet=True, as_json=False), heard) == "tenure: why  \n"


def test_json_has_the_fields(heard: Path) -> None:
    told, logged, ended = map(json.loads, spoken(Voice(quiet=False, as_json=True), heard).splitlines())
    assert told == {"event": "told", "token": 7, "text": "a [31m b password: ada leads"}
    assert logged == {"event": "log", "text": "vault://ada:***@host"}
    assert ended["event"] == "ended"


def test_a_voice_that_nobody_reads_does_not_wait() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while os.write(writer, b"x" * 4096):
            pass
    os.set_blocking(writer, True)
    before = os.dup(2)
    os.dup2(writer, 2)
    try:
        Voice(quiet=False, as_json=False).say("told", "never heard")
    finally:
        os.dup2(before, 2)
    assert os.read(reader, 100) == b"x" * 100
    for descriptor in (before, reader, writer):
        os.close(descriptor)


@pytest.mark.parametrize(
    ("words", "name", "command"),
    [
        (["x", "--", "ls", "-l"], "x", ("ls", "-l")),
        (["x", "ls", "-l", "--once"], "x", ("ls", "-l", "--once")),
        (["--once", "x", "--ttl", "2", "--", "git", "log", "--", "file"], "x", ("git", "log", "--", "file")),
    ],
)
def test_the_command_is_what_follows_the_dashes_or_else_the_name(
    words: list[str], name: str, command: tuple[str, ...]
) -> None:
    ctx = run.make_context("run", words)
    assert (ctx.params["name"], ctx.params["command"]) == (name, command)


@pytest.mark.parametrize("words", [["x"], ["x", "--"], ["--", "ls"], ["x", "git", "log", "--", "file"]])
def test_a_command_line_without_name_or_command_is_refused(words: list[str]) -> None:
    with pytest.raises(click.UsageError):
        run.make_context("run", words)


def test_not_to_wait_and_to_wait_exclude_each_other() -> None:
    assert [wait_of(None, no_wait=False), wait_of(3.0, no_wait=False), wait_of(None, no_wait=True)] == [None, 3, 0]
    with pytest.raises(ConfigError, match="--no-wait"):
        wait_of(3.0, no_wait=True)


@pytest.mark.parametrize("command", [run, lock])
def test_the_help_has_examples_and_every_exit_code(command: CommandAfterDashes) -> None:
    text = command.get_help(click.Context(command, info_name="tenure x"))
    assert "Examples:" in text
    for code in ("2 ", "69 ", "75 ", "124 ", "126 ", "127 ", "128+n"):
        assert f"\n    {code}" in text, code


def test_a_starter_whose_supervisor_has_just_died_ends_without_a_word_and_without_the_command(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.send(b".")
        ours.close()
        command = [sys.executable, "-I", "-S", starter.__file__, str(theirs.fileno()), "touch", str(tmp_path / "ran")]
        ended = subprocess.run(command, pass_fds=[theirs.fileno()], capture_output=True, check=False, timeout=30)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    assert not (tmp_path / "ran").exists()

"""``tenure demo``: what it says it shows, it shows; and however it ends, nothing of it is left."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tenure.cli.demo.happening import Happening, What
from tenure.cli.demo.judge import judge
from tenure.cli.demo.show import Json, Plain, Terminal, save_svg

COMMAND = [sys.executable, "-m", "tenure", "demo"]
GONE_WITHIN_S = 20.0


class Demo:
    """A demo that runs, read line by line. Knows its candidates by descriptors, which no other process can come to have."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.candidates: list[int] = []
        self.process = subprocess.Popen(
            [*COMMAND, "--json", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(folder)},
        )

    def read_until(self, what: What) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said = json.loads(line)
            if said["what"] == What.STARTED:
                self.candidates.append(os.pidfd_open(said["pid"]))
            if said["what"] == what:
                return
        raise AssertionError(f"{what} did not happen")

    def check_no_candidate_is_left(self) -> None:
        assert self.candidates
        for candidate in self.candidates:
            assert select.select([candidate], [], [], GONE_WITHIN_S)[0], "a candidate is left"

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()
        for candidate in self.candidates:
            with suppress(ProcessLookupError):  # as it should be
                signal.pidfd_send_signal(candidate, signal.SIGKILL)
            os.close(candidate)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    demo = Demo(tmp_path)
    yield demo
    demo.end()


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def last_renewal_and_next_grant(act: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the leader said last before it was struck, and what its successor said."""
    (struck,) = (at for at, said in enumerate(act) if said["what"] in (What.FROZEN, What.KILLED))
    leader = act[struck]["who"]
    renewed = [said for said in act[:struck] if (said["who"], said["what"]) == (leader, What.RENEWED)]
    granted = [said for said in act[struck:] if said["what"] == What.GRANTED]
    return renewed[-1], granted[0]


def test_the_fence_holds_without_it_the_ledger_is_corrupt_and_nothing_is_left(tmp_path: Path) -> None:
    run = subprocess.run(
        [*COMMAND, "--json", "--ttl", "3s"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    *happenings, last = map(json.loads, run.stdout.splitlines())
    assert (run.returncode, run.stderr, last["problems"]) == (0, "", []), run.stdout
    frozen, killed, unfenced = last["figures"]
    assert [(act["stale_tried"], act["stale_accepted"]) for act in (frozen, killed, unfenced)] == [
        (1, 0),
        (0, 0),
        (1, 1),
    ]
    assert (frozen["audit"]["faults"], killed["audit"]["faults"]) == ([], [])
    assert unfenced["audit"]["faults"] == ["invoice 3 is paid 2 times", "the total says 300, the payments sum to 500"]
    for act in (frozen, killed, unfenced):
        pieces_ns = act["takeover"]
        renewed, granted = last_renewal_and_next_grant([said for said in happenings if said["act"] == act["act"]])
        # Nobody may take over before the lease of 3 s has run out. It was granted when the answer came at the latest.
        assert granted["sent_ns"] + pieces_ns["elect_ns"] - renewed["sent_ns"] >= 3 * 10**9
        assert min(pieces_ns.values()) > 0
        assert 2 * pieces_ns["total_ns"] == sum(pieces_ns.values())
    (rejected,) = (said for said in happenings if said["what"] == What.REJECTED)
    assert (rejected["who"], rejected["act"], rejected["token"] < rejected["highest"]) == ("A", 1, True)
    assert [said["who"] for said in happenings if said["what"] == What.ENDING] == ["A"]
    pids = [said["pid"] for said in happenings if said["what"] == What.STARTED]
    assert len(set(pids)) == 6
    assert [pid for pid in pids if is_there(pid)] == []
    assert list(tmp_path.iterdir()) == []


def test_a_director_that_is_killed_leaves_no_candidate_not_even_a_frozen_one(demo: Demo) -> None:
    demo.read_until(What.FROZEN)
    demo.process.kill()
    assert len(demo.candidates) == 3
    demo.check_no_candidate_is_left()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_a_director_that_is_told_to_end_leaves_neither_a_candidate_nor_a_folder(
    demo: Demo, number: signal.Signals, code: int
) -> None:
    demo.read_until(What.WAITS)
    demo.process.send_signal(number)
    _, complaint = demo.process.communicate()
    assert demo.process.returncode == code
    assert "Traceback" not in complaint
    demo.check_no_candidate_is_left()
    assert list(demo.folder.iterdir()) == []


def test_output_that_nobody_reads_leaves_neither_a_candidate_nor_a_folder(demo: Demo) -> None:
    demo.read_until(What.ELECTED)
    assert demo.process.stdout is not None
    demo.process.stdout.close()
    assert demo.process.wait() == 74
    demo.check_no_candidate_is_left()
    assert list(demo.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--ttl", "0.1"], "tenure: --ttl = 0.1: must lie between 0.5 and 60 seconds\n"),
        (["--ttl", "2m"], "tenure: --ttl = 120.0: must lie between 0.5 and 60 seconds\n"),
        (
            ["--svg", "no/such/folder.svg"],
            "tenure: --svg = no/such/folder.svg: cannot be written: No such file or directory\n",
        ),
        (["--svg", "x" * 300], f"tenure: --svg = {'x' * 300}: cannot be written: File name too long\n"),
    ],
)
def test_a_bad_option_is_refused_in_one_line(options: list[str], complaint: str) -> None:
    run = subprocess.run([*COMMAND, *options], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (2, "", complaint)


@pytest.mark.parametrize("options", [[], ["failover", "--json"]], ids=["demo", "failover"])
def test_a_folder_without_room_is_refused_in_one_line_and_nothing_is_left(tmp_path: Path, options: list[str]) -> None:
    # A file that may not grow is to SQLite what a full disk is.
    run = subprocess.run(
        ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", *COMMAND, *options],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert (run.returncode, run.stdout) == (2, "")
    (complaint,) = run.stderr.splitlines()
    assert complaint.startswith(f"tenure: TMPDIR = {tmp_path}: must be a folder with room")
    assert list(tmp_path.iterdir()) == []


# A history made by hand, and everything that could be wrong with it


def an_act(act: int, strike: What, zombie: What | None, faults: list[str]) -> list[Happening]:
    """A leads with an odd token and is struck, B takes over with the next; then A writes, and gets an answer."""
    began_ns, old, new = act * 10**10, 2 * act - 1, 2 * act

    def at(ms: int, who: str, what: What, token: int = 0, invoice: int = 0, **more: Any) -> Happening:
        return Happening(began_ns + ms * 10**6, act, who, what, token, invoice, more)

    history = [
        at(0, "A", What.STARTED, pid=1),
        at(10, "A", What.ELECTED, old),
        at(20, "A", strike, old, 1),
        at(1025, "B", What.GRANTED, new, sent_ns=began_ns + 1020 * 10**6),
        at(1028, "B", What.SEALED, new),
        at(1030, "B", What.ELECTED, new),
        at(1035, "B", What.SENDS, new, 1),
        at(1040, "B", What.ACCEPTED, new, 1, total=100),
    ]
    if zombie is not None:
        history += [at(2000, "A", What.SENDS, old, 1), at(2001, "A", zombie, old, 1, total=100, highest=new)]
    books: dict[str, Any] = {"payments": [(1, "B", new)], "total": 100, "faults": faults}
    return [*history, at(2100, "ledger", What.AUDITED, **books)]


FROZEN = an_act(1, What.FROZEN, What.REJECTED, [])
KILLED = an_act(2, What.KILLED, None, [])
UNFENCED = an_act(3, What.FROZEN, What.ACCEPTED, ["invoice 1 is paid 2 times"])


def test_a_history_in_which_all_went_well_is_judged_so_and_measured() -> None:
    verdict = judge(FROZEN + KILLED + UNFENCED)
    assert (verdict.problems, verdict.exit_code) == ([], 0)
    takeover = verdict.figures[0].takeover
    assert takeover is not None
    pieces_ns = (takeover.detect_ns, takeover.elect_ns, takeover.seal_ns, takeover.write_ns, takeover.total_ns)
    assert [piece_ns // 10**6 for piece_ns in pieces_ns] == [1000, 5, 5, 10, 1020]


@pytest.mark.parametrize(
    ("history", "problem"),
    [
        (
            an_act(1, What.FROZEN, What.ACCEPTED, []) + KILLED + UNFENCED,
            "act 1: the fenced ledger accepted 1 stale writes",
        ),
        (
            an_act(1, What.FROZEN, What.REJECTED, ["a fault"]) + KILLED + UNFENCED,
            "act 1: the fenced ledger is corrupt: a fault",
        ),
        (
            FROZEN + an_act(2, What.KILLED, What.ACCEPTED, []) + UNFENCED,
            "act 2: the fenced ledger accepted 1 stale writes",
        ),
        (
            an_act(1, What.FROZEN, None, []) + KILLED + UNFENCED,
            "act 1: no stale write was tried, so nothing was shown",
        ),
        (
            [found for found in FROZEN if found.what is not What.REJECTED] + KILLED + UNFENCED,
            "act 1: no stale write was tried, so nothing was shown",
        ),
        (
            FROZEN + [found for found in KILLED if found.what is not What.ACCEPTED] + UNFENCED,
            "act 2: nobody took over and paid",
        ),
        (
            FROZEN + KILLED + an_act(3, What.FROZEN, What.ACCEPTED, []),
            "act 3: the ledger without a fence was not corrupted, so nothing was shown",
        ),
    ],
)
def test_a_demo_that_broke_the_promise_or_shows_nothing_fails(history: list[Happening], problem: str) -> None:
    verdict = judge(history)
    assert verdict.problems == [problem]
    assert verdict.exit_code == 1


def test_a_stale_write_in_the_second_act_is_found_by_a_token_of_the_first() -> None:
    late = [replace(found, act=2, at_ns=found.at_ns + 10**10) for found in FROZEN if found.who == "A"]
    late = [replace(found, what=What.ACCEPTED) if found.what is What.REJECTED else found for found in late]
    writes = [found for found in late if found.what in (What.SENDS, What.ACCEPTED)]
    assert judge(FROZEN + KILLED + writes + UNFENCED).figures[1].stale_accepted == 1


def test_a_story_that_ends_early_fails_with_what_is_missing_and_no_more() -> None:
    verdict = judge(FROZEN, "waited in vain for the lease to run out")
    assert verdict.problems == ["the story did not happen: waited in vain for the lease to run out"]
    assert judge([], "x").exit_code == 1


def test_a_promise_that_was_broken_is_told_even_if_the_story_ends_early() -> None:
    verdict = judge(an_act(1, What.FROZEN, What.ACCEPTED, []), "x")
    assert verdict.problems[1:] == ["act 1: the fenced ledger accepted 1 stale writes"]


# How it looks


def show(timeline: Json | Plain | Terminal, history: list[Happening], broken: str | None = None) -> None:
    for happening in history:
        timeline.happened(happening)
    timeline.report(judge(history, broken))


def test_plain_lines_tell_who_did_what_when(capsys: pytest.CaptureFixture[str]) -> None:
    show(Plain(2), FROZEN + KILLED + UNFENCED)
    lines = capsys.readouterr().out.splitlines()
    assert "  2.001 s  ledger  REJECTED, token 1 < 2" in lines
    assert " 22.001 s  ledger  ACCEPTED stale token 5" in lines
    assert "SIGSTOP for 5 s, lease 2 s: as a pause of 45 s is to a lease of 18 s" in lines
    assert [line.split()[-2:] for line in lines if line.startswith("  1: frozen")][-1] == ["1", "0"]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("width", [80, 100])
def test_the_timeline_fits_the_terminal_and_breaks_no_word(width: int) -> None:
    console = Console(file=StringIO(), width=width)
    show(Terminal(console, 2), FROZEN + KILLED + UNFENCED)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= width
    assert {"REJECTED,", "ACCEPTED", "CORRUPT:", "FROZEN", "KILLED"} <= set(text.split())


def test_a_demo_that_failed_says_so_and_what_it_has_not_seen(capsys: pytest.CaptureFixture[str]) -> None:
    show(Plain(2), FROZEN, "waited in vain for the lease to run out")
    said = capsys.readouterr().out
    assert "FAILED: the story did not happen: waited in vain for the lease to run out" in said
    assert "held" not in said


def test_the_picture_shows_the_run_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    history = FROZEN + KILLED + UNFENCED
    save_svg(tmp_path / "demo.svg", history, judge(history), 2)
    picture = (tmp_path / "demo.svg").read_text()
    assert "REJECTED" in picture
    assert "url(http" not in picture.replace('"', "")

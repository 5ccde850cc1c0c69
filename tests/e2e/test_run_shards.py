"""``tenure run --shards``: a command for every shard, each on one machine at a time, whatever becomes of a supervisor.

The commands append their shard and token to one file. Each line is appended by one write, so the order of the lines is the order
of the writes: if a command wrote after its successor, the tokens of its shard would not rise.
"""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.processes import alive, check_eventually, freeze, parent
from tests.supervisors import TENURE, Supervisor, Supervisors

COUNT = 6
TTL_S = 3
# Arguments: the file, the shard, and how to behave. ``stubborn`` ignores TERM and ``polite`` says goodbye; ``fails`` and ``done``
# end, if this is shard 2.
WRITER = """
import os, signal, sys, time
def write(word): os.write(lines, f"{sys.argv[2]} {os.environ['TENURE_TOKEN']} {os.getpid()} {word}\\n".encode())
def goodbye(*_):
    time.sleep(0.3)
    write("goodbye")
    sys.exit()
lines = os.open(sys.argv[1], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
assert os.environ["TENURE_SHARD"] == sys.argv[2]
assert os.environ["TENURE_ELECTION"] == "x/" + sys.argv[2]
assert not sys.stdin.read()
if "polite" in sys.argv: signal.signal(signal.SIGTERM, goodbye)
if "stubborn" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
write("begin")
if "fails" in sys.argv and sys.argv[2] == "2":
    while open(sys.argv[1]).read().count("begin") < 6: time.sleep(0.01)
    sys.exit(7)
if "done" in sys.argv and sys.argv[2] == "2": sys.exit(0)
while True:
    write("work")
    time.sleep(0.01)
"""


class Stage(Supervisors):
    def start(self, *behaviour: str, options: tuple[str, ...] = ()) -> Supervisor:
        words = ("run", "x", "--shards", str(COUNT), "--ttl", str(TTL_S), *options)
        return self.launch(*words, program=WRITER, arguments=("{shard}", *behaviour), stdin=subprocess.PIPE)

    def lines(self) -> list[tuple[int, int, int, str]]:
        return [(int(shard), int(token), int(pid), word) for shard, token, pid, word in self.words()]

    def running(self) -> dict[int, int]:
        """The process that wrote last for each shard, if it runs."""
        last = {shard: pid for shard, _, pid, _ in self.lines()}
        return {shard: pid for shard, pid in last.items() if alive(pid)}

    def of(self, supervisor: Supervisor) -> set[int]:
        """The shards whose commands are children of a supervisor."""
        return {shard for shard, pid in self.running().items() if parent(pid) == supervisor.pid}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.end()
    for shard in range(COUNT):
        tokens = [token for number, token, _, _ in stage.lines() if number == shard]
        assert tokens == sorted(tokens)


def test_commands_make_way_for_a_member_that_joins_and_come_back_when_it_leaves(stage: Stage) -> None:
    first = stage.start("polite")
    check_eventually(lambda: len(stage.of(first)) == COUNT)
    before = stage.running()
    second = stage.start("polite")
    check_eventually(lambda: (len(stage.of(first)), len(stage.of(second))) == (3, 3))
    assert all(stage.running()[shard] == before[shard] for shard in stage.of(first))  # Who stays is not disturbed.
    assert sum(word == "goodbye" for _, _, _, word in stage.lines()) == 3
    assert stage.errors().count("handing over x/") == 3
    second.terminate()
    assert second.wait(30) == 0  # which is what each of its commands has exited with
    check_eventually(lambda: len(stage.of(first)) == COUNT)


def test_the_commands_of_a_killed_supervisor_die_with_it_and_are_run_by_others(stage: Stage) -> None:
    both = [stage.start("stubborn"), stage.start("stubborn")]
    check_eventually(lambda: [len(stage.of(one)) for one in both] == [3, 3])
    before, kept = stage.running(), stage.of(both[1])
    both[0].kill()
    check_eventually(lambda: not any(alive(pid) for shard, pid in before.items() if shard not in kept))
    check_eventually(lambda: len(stage.of(both[1])) == COUNT)
    assert all(stage.running()[shard] == before[shard] for shard in kept)


def test_the_commands_of_a_frozen_supervisor_are_dead_before_others_run_them(stage: Stage) -> None:
    both = [stage.start("stubborn", options=("--drain", "200ms")) for _ in range(2)]
    check_eventually(lambda: [len(stage.of(one)) for one in both] == [3, 3])
    freeze(both[0].pid, stage.folder / "store.db")
    check_eventually(lambda: len(stage.of(both[1])) == COUNT)
    both[0].send_signal(signal.SIGCONT)
    check_eventually(lambda: [len(stage.of(one)) for one in both] == [3, 3])


def test_a_command_that_does_not_make_way_is_killed_when_its_time_is_up(stage: Stage) -> None:
    first = stage.start("stubborn", options=("--drain", "200ms"))
    check_eventually(lambda: len(stage.of(first)) == COUNT)
    second = stage.start()
    check_eventually(lambda: (len(stage.of(first)), len(stage.of(second))) == (3, 3))
    second.kill()
    check_eventually(lambda: len(stage.of(first)) == COUNT)  # It has taken no harm.


def test_a_command_that_fails_ends_its_supervisor_with_its_code(stage: Stage) -> None:
    assert stage.start("fails", "polite").wait(30) == 7
    assert sum(word == "goodbye" for _, _, _, word in stage.lines()) == COUNT - 1


def test_a_command_that_has_done_leaves_the_others_running_and_is_not_run_again(stage: Stage) -> None:
    one = stage.start("done")
    check_eventually(lambda: len(stage.of(one)) == COUNT - 1)
    one.send_signal(signal.SIGTERM)
    assert one.wait(30) == 128 + signal.SIGTERM  # which is what its commands have died of
    assert sum(shard == 2 and word == "begin" for shard, _, _, word in stage.lines()) == 1


def test_weight_and_the_most_that_a_member_may_own_are_kept(stage: Stage) -> None:
    first, second = stage.start(options=("--max-shards", "1")), stage.start(options=("--weight", "2"))
    check_eventually(lambda: (len(stage.of(first)), len(stage.of(second))) == (1, 5))


def test_members_that_come_back_under_their_names_in_time_find_their_shards_and_nothing_has_moved(stage: Stage) -> None:
    def start(name: str) -> Supervisor:
        return stage.start(options=("--member", name, "--return-within", "2m"))

    def begun() -> int:
        return sum(word == "begin" for _, _, _, word in stage.lines())

    one = start("one")
    check_eventually(lambda: len(stage.of(one)) == COUNT, within_s=60)
    other = start("other")
    check_eventually(lambda: (len(stage.of(one)), len(stage.of(other))) == (3, 3), within_s=60)
    were, before = (stage.of(one), stage.of(other)), begun()
    one.terminate()
    other.kill()
    check_eventually(lambda: one.poll() is not None and not stage.running(), within_s=60)
    other = start("other")  # The other way round: without a name it would be the first, whose seat is free at once.
    check_eventually(lambda: stage.of(other) == were[1], within_s=60)
    one = start("one")
    check_eventually(lambda: (stage.of(one), stage.of(other)) == were, within_s=60)
    assert begun() == before + COUNT


def test_the_shards_of_a_member_that_does_not_come_back_in_time_are_given_away(stage: Stage) -> None:
    one, other = (stage.start(options=("--member", name, "--return-within", "1s")) for name in ("one", "other"))
    check_eventually(lambda: (len(stage.of(one)), len(stage.of(other))) == (3, 3), within_s=60)
    one.kill()
    check_eventually(lambda: len(stage.of(other)) == COUNT, within_s=60)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--shards", "4", "--", "./work", "--part"), "command = ./work --part: must have {shard} in it"),
        (("--shards", "0", "--", "true", "{shard}"), "shards = 0: must be a whole number from 1 to 32768"),
        (("--shards", "4", "--weight", "-1", "--", "true", "{shard}"), "weight = -1: must be a whole number"),
        (("--shards", "4", "--max-shards", "-1", "--", "true", "{shard}"), "max_shards = -1: must be"),
        (("--shards", "4", "--member", "a/b", "--", "true", "{shard}"), "member = 'a/b': must be a name without"),
        (("--shards", "4", "--once", "--", "true", "{shard}"), "--shards = 4: cannot be given together with --once"),
        (("--shards", "4", "--ready-file", "r", "--", "true", "{shard}"), "cannot be shown with --shards"),
        (("--drain", "1s", "--", "true"), "--drain = 1.0: is for shards: say how many by --shards"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_made(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    store = f"sqlite://{tmp_path}/store.db"
    told = subprocess.run(
        [TENURE, "run", "x", "--store", store, *words], capture_output=True, text=True, check=False, timeout=30
    )
    assert (told.returncode, told.stdout) == (2, "")
    assert said in told.stderr
    assert told.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []

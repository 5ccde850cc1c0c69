"""``tenure plan`` as people use it: one answer, one line for bad input, and a chart."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tenure.cli.plan import command
from tenure.errors import TenureError
from tests.user import at_home

ROOT = Path(__file__).parents[2]
TENURE = [sys.executable, "-m", "tenure"]


class Desk:
    """A user who has settled nothing, in this process."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        for name in (
            "TENURE_STORE",
            "TENURE_TTL",
            "TENURE_GRACE",
            "TENURE_CONFIG",
            "XDG_CONFIG_HOME",
            "XDG_STATE_HOME",
        ):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("COLUMNS", "80")

    def plan(self, *arguments: str) -> tuple[int, str]:
        code = command.main([*arguments], standalone_mode=False)
        return code, self._capsys.readouterr().out

    def json(self, *arguments: str) -> Any:
        return json.loads(self.plan(*arguments, "--json")[1])

    def refused(self, *arguments: str) -> str:
        with pytest.raises(TenureError) as error:
            command.main([*arguments], standalone_mode=False)
        return str(error.value)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(tmp_path, monkeypatch, capsys)


def test_the_budget_of_the_design_is_what_it_says_by_itself(desk: Desk) -> None:
    code, told = desk.plan()
    assert code == 0
    assert "6 + 1 + 2 + 13 + 5 = 27 <= 30 s: it fits, with 3 s to spare." in told
    assert "29 s at worst" in told
    assert desk.plan("-H", "2", "-N", "3", "-L", "8") == (code, told)
    assert max(map(len, told.splitlines())) <= 120


def test_what_does_not_fit_is_exit_code_1_and_says_what_to_change(desk: Desk) -> None:
    code, told = desk.plan("--rto", "20s")
    assert code == 1
    assert "warm at most 6 s instead of 13 s" in told
    code, told = desk.plan("--rto", "5s")
    assert code == 1
    assert "it cannot fit, by 22 s" in told
    assert "H = 1 s x N = 3, L = 4 s, 5 s in all; false failovers then: 1 in 21 d" in told


def test_json_has_all_of_it(desk: Desk) -> None:
    told = desk.json(
        "--store", "etcd://h", "--target", "1/30d", "--members", "5", "--ops", "5000/s", "--op-cost", "400us"
    )
    assert told["budget"] == {
        "detect_s": 8.0, "elect_s": 1.0, "load_s": 2.0, "warm_s": 13.0, "discover_s": 5.0, "total_s": 29.0, "unnoticed_s": 2.0
    }  # fmt: skip
    assert (told["fit"], told["store"]["engine"], told["store"]["slack_s"]) == ("tight", "etcd", 2.0)
    assert told["false_failovers"]["assumed"]
    assert [one["misses"] for one in told["recommended"]] == [2, 3, 4, 5]
    assert told["quorum"]["tolerates"] == 2
    assert told["load"]["shards"] == 3


def test_what_consul_takes_beyond_its_lease_is_told(desk: Desk) -> None:
    code, told = desk.plan("--store", "consul://h:8500")
    assert code == 1
    assert "33.5 + 1 + 2 + 13 + 5 = 54.5 > 30 s" in told
    assert "2 x ttl, and then keeps the lock empty for the lock-delay of 15 s" in told
    fenced = desk.json("--store", "consul://h:8500", "--fenced", "--warm-standby")
    assert (fenced["budget"]["detect_s"], fenced["fit"]) == (18.5, "fits")


def test_a_store_that_was_settled_is_planned_for(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_STORE", "zookeeper://h")
    monkeypatch.setenv("TENURE_TTL", "4s")
    told = desk.json()
    assert (told["store"]["engine"], told["timing"]["ttl_s"], told["timing"]["heartbeat_s"]) == ("ZooKeeper", 4.0, 1.0)
    assert desk.json("-H", "2")["timing"]["ttl_s"] == 8.0  # what was said now wins over what was settled


def test_a_store_may_be_asked_what_it_promises(desk: Desk, tmp_path: Path) -> None:
    file = f"sqlite:///{tmp_path}/t.db"
    assert "is missing or empty" in desk.refused("--store", file, "--connect")
    run = [*TENURE, "run", "jobs", "--once", "--store", file, "--", "true"]
    subprocess.run(run, env=at_home(tmp_path), check=True, capture_output=True)
    assert desk.json("--store", file, "--connect")["store"] == desk.json("--store", file)["store"]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("etcd://h", "etcd tells standbys of a release (watch): a hand-over takes elect = 1 s."),
        ("postgresql://u@h/d?poll=10", "PostgreSQL tells standbys of a release (notify): a hand-over takes elect = 1 s."),
        ("mysql://u@h/d", "MySQL tells nobody of a release (poll); a standby looks within 0.5 s: a hand-over takes 0.5 + 1 = 1.5 s."),
        ("mysql://u@h/d?poll=3", "a standby looks within 3 s: a hand-over takes 3 + 1 = 4 s."),
    ],
)  # fmt: skip
def test_how_standbys_hear_of_a_release_is_told(desk: Desk, url: str, told: str) -> None:
    assert told in desk.plan("--store", url)[1]


def test_a_check_shows_whatever_else_was_asked(desk: Desk, tmp_path: Path) -> None:
    file = f"sqlite:///{tmp_path}/t.db"
    run = [*TENURE, "run", "jobs", "--once", "--store", file, "--", "true"]
    subprocess.run(run, env=at_home(tmp_path), check=True, capture_output=True)
    asked = ["--target", "1/10000d", "--members", "5", "--rtt", "a-b=80ms", "--ops", "5000/s"]
    code, told = desk.plan("--store", file, "--check", "jobs", *asked)
    assert code == 1
    assert "Target 1 in 27 y: H = 2 s, N = 3 misses it." in told
    assert "Members that decide by majority:" in told
    assert "Over regions:" in told
    assert "One leader, 5000 operations/s" in told
    assert "jobs at sqlite://" in told
    alone = desk.plan("--store", file, "--check", "jobs")
    assert alone[0] == 0
    assert "Target" not in alone[1]


def test_pauses_of_a_log_make_the_curve(desk: Desk, tmp_path: Path) -> None:
    log = tmp_path / "gc.txt"
    log.write_text("".join(f"{ms}ms\n" for ms in [20] * 900 + [300] * 90 + [2500] * 9 + [7000]))
    told = desk.json("--pauses", str(log), "--pauses-over", "24h")["false_failovers"]
    assert told["source"].startswith("1000 pauses in 24 h, the longest 7 s")
    assert not told["assumed"]
    assert told["per_day"] > 0.9  # 7 s are lost whenever they begin
    rates = [one["per_day"] for one in told["curve"]]
    assert rates == sorted(rates, reverse=True)
    code, words = desk.plan("--pauses", str(log), "--pauses-over", "24h", "--target", "1/30d")
    assert code == 1
    assert "misses it" in words


def test_outages_of_a_log_are_counted_beside_the_pauses(desk: Desk, tmp_path: Path) -> None:
    log = tmp_path / "outages.txt"
    log.write_text("2s\n6s\n12s\n")
    told = desk.json("--outages", str(log), "--outages-over", "7d")["false_failovers"]
    assert told["source"].startswith("3 outages in 7 d, the longest 12 s; pauses by profile cloud")
    assert told["by_outages_per_day"] > 2 / 7 * 0.6  # 12 s always, and 6 s mostly
    assert told["per_day"] > told["by_outages_per_day"]
    assert "(pauses 1 in 201 d, outages 1 in " in desk.plan("--outages", str(log), "--outages-over", "7d")[1]
    assert "has no instants in it" in desk.refused("--outages", str(log))


def test_a_rate_that_a_log_cannot_show_is_called_extrapolated(desk: Desk, tmp_path: Path) -> None:
    log = tmp_path / "gc.txt"
    log.write_text("".join(f"{ms}\n" for ms in range(1, 200)))
    _, told = desk.plan("--pauses", str(log), "--unit", "ms", "--pauses-over", "1d")
    assert "the longest pauses were extrapolated" in told


def test_a_log_of_ping_is_taken_for_round_trips_wherever_it_is_given(desk: Desk, tmp_path: Path) -> None:
    log = tmp_path / "ping.txt"
    log.write_text("".join(f"64 bytes from h: icmp_seq={n} ttl=64 time={n % 7 + 80} ms\n" for n in range(50)))
    by_pauses, by_rtts = (desk.json(option, str(log))["false_failovers"] for option in ("--pauses", "--rtts"))
    assert by_pauses == by_rtts
    assert "50 round trips, every second within 83 ms" in by_rtts["source"]


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_chart_is_written_as_its_name_says(desk: Desk, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"plan.{suffix}"
    assert desk.plan("--chart", str(file))[0] == 0
    assert file.read_bytes().startswith(b"<svg" if suffix == "svg" else b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-H", "0"], "heartbeat (H) = 0 s: must be more than 0"),
        (["-N", "0"], "misses (N) = 0: must be at least 1: N > 0"),
        (["-L", "6", "-H", "2"], "ttl (L) = 6 s: must be more than N x H = 3 x 2 s = 6 s"),
        (["-L", "0"], "ttl (L) = 0 s: must be more than 0"),
        (["-H", "soon"], "-H = soon: must be a duration"),
        (["--profile", "moon"], "--profile = moon: must be one of lan, cloud, wan, cross-region"),
        (["--target", "often"], "--target = often: must be a number and a time"),
        (["--target", "0/30d"], "--target = 0/30d: must be more than 0"),
        (["--target", "1/0d"], "--target = 1/0d: must be more than 0"),
        (["--ops", "many"], "--ops = many: must be a rate"),
        (["--ops", "0/s"], "--ops = 0/s: must be more than 0"),
        (["--op-cost", "dear"], "--op-cost = dear: must be a duration"),
        (["--op-cost", "dearus"], "--op-cost = dearus: must be a duration"),
        (["--op-cost", "0"], "--op-cost = 0 s: must be more than 0"),
        (["--op-cost", "-3us"], "--op-cost = -3e-06 s: must be more than 0"),
        (["--op-cost", "nanus"], "--op-cost = nan s: must be more than 0"),
        (["--ops", "1", "--op-cost", "infus"], "--op-cost = inf s: must be more than 0 and at most 1e+06 s"),
        (["--ops", "nan"], "--ops = nan/s: must be more than 0"),
        (["--ops", "inf"], "--ops = inf/s: must be more than 0"),
        (["--profile", ""], "--profile = : must be one of lan"),
        (["--unit", "parsec"], "--unit = parsec: must be one of ns, us, ms, s, m"),
        (["--unit", ""], "--unit = : must be one of ns, us, ms, s, m"),
        (["--rtt", "a-b=1ms", "--rtt", "b-a=2ms"], "--rtt = b-a: must be said once, or alike: it was said to be 1 ms and 2 ms"),
        (["--rtt", "a-b=nan"], "--rtt = nan: must be a duration"),
        (["-H", "nan"], "-H = nan: must be a duration"),
        (["-H", "inf"], "-H = inf: must be a duration"),
        (["-H", "1e308"], "-H = 1e308: must be a duration"),
        (["--heartbeat=-1"], "-H = -1: must be a duration"),
        (["-N", "-1"], "misses (N) = -1: must be at least 1: N > 0"),
        (["-N", "1001"], "misses = 1001: must be a whole number from 1 to 1000"),
        (["-L", "5", "-H", "2"], "ttl (L) = 5 s: must be more than N x H = 3 x 2 s = 6 s: L > N x H"),
        (["--members", "0"], "--members = 0: must be from 1 to 99"),
        (["--rtt", "eu=80ms"], "--rtt = eu=80ms: must be two regions"),
        (["--rtt", "eu-us"], "--rtt = eu-us: must be two regions"),
        (["--rtt", "eu-us=0"], "--rtt = eu-us=0: must be more than 0"),
        (["--rtt", "us-east-1-eu-west-1=80ms"], "--rtt = us-east-1-eu-west-1=80ms: must be two regions"),
        (["--rto", "0"], "--rto = 0 s: must be more than 0"),
        (["--chart", "plan.gif"], "--chart = plan.gif: must end in .svg or .png"),
        (["--chart", "/nowhere/at/all.svg"], "--chart = /nowhere/at/all.svg: cannot be written"),
        (["--pauses", "/nowhere"], "--pauses = /nowhere: cannot be read: No such file"),
        (["--pauses", "/"], "--pauses = /: cannot be read: Is a directory"),
        (["--pauses-over", "3h"], "--pauses-over = 10800 s: says over what time"),
        (["--outages-over", "3h"], "--outages-over = 10800 s: says over what time --outages"),
        (["--store", "nowhere://h"], "store = nowhere://h: must begin with"),
        (["--store", "consul://h", "-L", "5s"], "ttl = 5 s: must be from 10 s to 86400 s"),
    ],
)  # fmt: skip
def test_bad_input_names_the_value_and_the_relation(desk: Desk, arguments: list[str], told: str) -> None:
    assert desk.refused(*arguments).startswith(told)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"12ms\nabout a second\n", "--pauses, line 2 = about a second: must be a duration"),
        (b"12ms\n", "has no instants in it: say over what time it was collected"),
        (b"", "--pauses = nothing: must have at least one duration"),
        (b"\xff\xfe\x00", "is no text"),
        (b"1" * 400 + b"\n", "must be from 0 to 1e+06 s"),
        (b"1" * 200_000, "it has a line of more than 100000 characters"),
        (b"12ms\n-5ms\n", "--pauses, line 2 = -5ms: must be a duration"),
        (b"12ms\n0.4 sec\n", "--pauses, line 2 = 0.4 sec: must be a duration"),
        (b"100s\n", "--pauses-over = 60 s: must be longer than all that was seen"),
    ],
)
def test_rubbish_in_a_log_is_named(desk: Desk, tmp_path: Path, content: bytes, told: str) -> None:
    log = tmp_path / "gc.txt"
    log.write_bytes(content)
    over = ["--pauses-over", "60s"] if content.startswith(b"100s") else []
    assert told in desk.refused("--pauses", str(log), *over)


def test_a_device_that_never_ends_is_no_log(desk: Desk) -> None:
    assert "it has a line of more than 100000 characters" in desk.refused("--pauses", "/dev/zero")


def test_units_may_differ_from_line_to_line(desk: Desk, tmp_path: Path) -> None:
    log = tmp_path / "gc.txt"
    log.write_text("12ms\n0.4 s\n350us\n1 m\n5\n")
    source = desk.json("--pauses", str(log), "--pauses-over", "24h")["false_failovers"]["source"]
    assert source.startswith("5 pauses in 24 h, the longest 60 s")


def test_a_log_that_is_larger_than_any_is_refused(desk: Desk, tmp_path: Path) -> None:
    log = tmp_path / "gc.txt"
    with log.open("wb") as opened:
        opened.truncate(257 * 2**20)  # It has holes, and takes no room.
    assert "must have at most 256 MiB" in desk.refused("--pauses", str(log))


def test_a_reader_that_has_gone_ends_it_without_a_word(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*TENURE, "plan", "--json"], env=at_home(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.close()
        said = run.stderr.read()
    assert (run.returncode, said) == (74, b"")


def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    run = subprocess.run(
        [*TENURE, "plan", "-N", "0"], env=at_home(tmp_path), capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "tenure: misses (N) = 0: must be at least 1: N > 0\n"


def test_a_terminal_without_unicode_gets_signs_that_it_has(tmp_path: Path) -> None:
    plain = at_home(tmp_path, PYTHONIOENCODING="ascii")
    run = subprocess.run([*TENURE, "plan"], env=plain, capture_output=True, text=True, check=False)
    assert run.returncode == 0
    assert run.stdout.isascii()
    assert "#####" in run.stdout


def test_two_logs_of_round_trips_are_one_too_many(desk: Desk, tmp_path: Path) -> None:
    log = tmp_path / "ping.txt"
    log.write_text("64 bytes from h: icmp_seq=1 ttl=64 time=80 ms\n")
    assert "is a log of round trips, as --rtts is" in desk.refused("--pauses", str(log), "--rtts", str(log))


def test_the_reference_knows_every_option() -> None:
    page = (ROOT / "docs" / "reference" / "plan.md").read_text()
    common = {"--config", "--accept-best-effort"}  # as every command has them
    options = [option for one in command.params for option in one.opts if option not in common]
    assert "--target" in options
    assert [option for option in options if f"`{option}" not in page] == []

"""Every story in this folder is what the machine does; and the script runner refuses scripts that say nothing clear."""

import inspect
from pathlib import Path

import pytest

from tenure.core.events import Granted, Stand
from tenure.core.table import CLAIMING, IDLE, LEADING, SEALING, TRANSITIONS, Row
from tenure.errors import ConfigError
from tenure.testing import script as runner
from tenure.testing.script import SCRIPT_BYTES_MAX, load, parse, rewrite, run
from tenure.testing.wording import read_time, write_time
from tenure.timing import Timing

FOLDER = Path(__file__).parent
STORIES = sorted(FOLDER.glob("*.txt"))
STORY = "stand at=0 → claim 1 bid=1 [claiming wake=1.75s]\n"


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path, request: pytest.FixtureRequest) -> None:
    name = str(path.relative_to(FOLDER.parents[1]))
    before = path.read_text(encoding="utf-8")
    after = rewrite(before, name)
    if request.config.getoption("--rewrite") and after != before:
        path.write_text(after, encoding="utf-8")
    outcome = run(parse(path.read_text(encoding="utf-8"), name))
    assert not outcome.mismatches, "\n".join(str(mismatch) for mismatch in outcome.mismatches)
    # A correct story is rewritten to itself: it hides no expectation, and is laid out like the others.
    assert rewrite(path.read_text(encoding="utf-8"), name) == path.read_text(encoding="utf-8")


def test_there_are_stories_and_each_says_its_property_first() -> None:
    assert len(STORIES) >= 28
    openings = [path.read_text(encoding="utf-8")[:2] for path in STORIES]
    assert set(openings) == {"# "}


def test_an_expectation_that_is_wrong_is_reported_with_its_place() -> None:
    script = parse("# A story.\n\nstand at=0 → claim 2 bid=1, seal 9 token=1 [idle]\n", "some/story.txt")
    assert [str(mismatch) for mismatch in run(script).mismatches] == [
        "some/story.txt:3: expected claim 2 bid=1, seal 9 token=1, got claim 1 bid=1",
        "some/story.txt:3: expected [idle], got [claiming wake=1.75s]",
    ]


@pytest.mark.parametrize(
    ("wrong", "expected", "got"),
    [
        ("stand at=0", "—", "claim 1 bid=1"),
        ("stand at=0 →", "—", "claim 1 bid=1"),
        ("tick at=0 → claim 1 bid=1", "claim 1 bid=1", "—"),
        ("stand at=0 → claim 1 bid=1, claim 1 bid=1", "claim 1 bid=1, claim 1 bid=1", "claim 1 bid=1"),
        ("stand at=0 → claim 1 bid=1 [claiming]", "[claiming]", "[claiming wake=1.75s]"),
    ],
)
def test_effects_are_compared_one_by_one_and_in_order(wrong: str, expected: str, got: str) -> None:
    assert [(it.expected, it.actual) for it in run(parse(wrong)).mismatches] == [(expected, got)]


@pytest.mark.parametrize("none", ["→ —", "→ -", "→", "-> —", "-> -", "->", "", "  →   —   [idle]", "-> [idle]# why"])
def test_nothing_can_be_written_in_many_ways(none: str) -> None:
    outcome = run(parse(f"tick at=0 {none}"))
    assert (outcome.actual, outcome.mismatches) == (["— [idle]"], [])


def test_a_transition_that_the_table_does_not_list_is_reported() -> None:
    script = parse(STORY + "granted 1 token=7 at=1s → seal 2 token=7\nsealed 7 at=2s\nended 7 at=20s\n", "story.txt")
    smaller = {
        **TRANSITIONS,
        (IDLE, Stand): Row("_stand", (IDLE,)),
        (CLAIMING, Granted): Row("_take", (CLAIMING, LEADING)),
    }
    assert [str(mismatch) for mismatch in run(script, smaller).mismatches if "table" in mismatch.expected] == [
        "story.txt:1: expected the table's idle --Stand--> idle, got claiming",
        "story.txt:2: expected the table's claiming --Granted--> claiming or leading, got sealing",
    ]


def test_the_tick_of_a_passed_deadline_is_a_transition_of_its_own() -> None:
    events = "stand at=0\ngranted 1 token=7 at=0\nsealed 7 at=0\nresign at=3600s\n"
    walked = [(before.value, event.__name__, after.value) for before, event, after in run(parse(events)).walked]
    assert ("leading", "Tick", "stopping") in walked
    assert ("stopping", "Tick", "stopping") in walked
    assert ("stopping", "Resign", "stopping") in walked
    assert ("leading", "Resign", "stopping") not in walked


def test_rewriting_fills_in_what_happens_and_keeps_what_people_wrote() -> None:
    draft = "# Why.\r\n\ntiming ttl=10s   # a lease\n  stand   at=0 -> nonsense [idle] # says who\n\n# End.\ngranted 1 token=7 at=40ms"
    assert rewrite(draft) == (
        "# Why.\n\ntiming ttl=10s   # a lease\n"
        "stand at=0                → claim 1 bid=1 [claiming wake=2.1875s]  # says who\n\n# End.\n"
        "granted 1 token=7 at=40ms → seal 2 token=7 [sealing until=9.9s wake=2.2275s]\n"
    )


def test_timing_takes_the_keywords_of_timing() -> None:
    assert set(runner._TIMING) == set(inspect.signature(Timing.of).parameters)
    line = "timing ttl=20s heartbeat=3s misses=4 attempt_timeout=500ms grace=1500us drift=0.05 local_share=0.5\n"
    expected = Timing.of(ttl=20, heartbeat=3, misses=4, attempt_timeout=0.5, grace=0.0015, drift=0.05, local_share=0.5)
    assert parse(line + STORY).timing == expected
    assert parse(STORY).timing == Timing.of()


def test_an_answer_belongs_to_the_bid_that_its_attempt_was_sent_for() -> None:
    story = "stand at=0\nresign at=0\nstand at=0\ngranted 1 token=7 at=1s\ngranted 1 token=7 bid=5 at=1s\ngranted 2 token=7 at=1s\n"
    assert [text.partition(" [")[0] for text in run(parse(story)).actual[3:]] == [
        "release bid=1",
        "release bid=5",
        "seal 3 token=7",
    ]


def test_a_renewal_is_granted_under_its_own_token_unless_another_is_named() -> None:
    story = "stand at=0\ngranted 1 token=7 at=0\nsealed 7 at=0\ntick at=2s\ngranted 3 {} at=3s\n"
    outcomes = [run(parse(story.format(named))).actual[-1] for named in ("", "token=8", "bid=9 token=8")]
    assert outcomes == [
        "— [leading until=9.92s wake=4s]",
        "stop-body 7 deposed [stopping until=3s wake=4s]",
        "release bid=9 [leading until=7.92s wake=3.75s]",
    ]


@pytest.mark.parametrize(
    ("text", "value", "rule"),
    [
        ("", "story.txt", "must have at least one event"),
        ("# only a comment\n\ntiming ttl=8s\n", "story.txt", "must have at least one event"),
        ("\nvote at=0", "story.txt:2 vote", "event must be one of changed, deposed, ended, failed"),
        ("→ claim 1 bid=1", "story.txt:1 → claim 1 bid=1", "event must be one of"),
        ("stand", "story.txt:1 at", "stand must say at=, the time of the event"),
        ("stand at=5s\nresign at=4999ms", "story.txt:2 4.999s", "at must not be earlier than the line before, 5s"),
        ("stand at=soon", "story.txt:1 soon", "at must be a time with its unit"),
        ("stand at=5", "story.txt:1 5", "at must be a time with its unit"),
        ("stand at=-5s", "story.txt:1 -5s", "at must be a time with its unit"),
        ("stand at=1e3s", "story.txt:1 1e3s", "at must be a time with its unit"),
        ("stand at=", "story.txt:1 nothing", "at must be a time with its unit"),
        ("stand at=٣s", "story.txt:1 ٣s", "at must be a time with its unit"),
        ("stand at=0.5ns", "story.txt:1 0.5ns", "at must be whole nanoseconds"),
        ("stand at=9999999999s", "story.txt:1 9999999999s", "at must be whole nanoseconds, and less than 292 years"),
        ("stand at=0 at=1s", "story.txt:1 at", "option must be said once"),
        ("stand at=0 when=1s", "story.txt:1 when", "option must be one of at, chance"),
        ("stand =0", "story.txt:1 =0", "option must be one of at, chance"),
        ("stand at=0 chance=1", "story.txt:1 1", "chance must be a number of at least 0 and below 1"),
        ("stand at=0 chance=nan", "story.txt:1 nan", "chance must be a number of at least 0 and below 1"),
        ("stand now at=0", "story.txt:1 now", "stand must be followed by no word before its options"),
        ("granted token=7 at=0", "story.txt:1 nothing", "granted must be followed by attempt before its options"),
        ("failed 1 at=0", "story.txt:1 1", "failed must be followed by attempt and outcome before its options"),
        ("failed 1 perhaps at=0", "story.txt:1 perhaps", "outcome must be definite or unknown"),
        ("granted one token=7 at=0", "story.txt:1 one", "attempt must be a whole number from 1 on"),
        ("granted 1 token=0 at=0", "story.txt:1 0", "token must be a whole number from 1 on"),
        ("sealed 9223372036854775808 at=0", "story.txt:1 9223372036854775808", "token must lie between 1 and"),
        ("stand at=0 → claim 1 [idle", "story.txt:1 [idle", "state must end the line with one ]"),
        ("stand at=0 → claim 1 [idle] seal", "story.txt:1 [idle] seal", "state must end the line with one ]"),
        ("timing ttl=1h\nstand at=0", "story.txt:1 1h", "ttl must be a time with its unit"),
        ("timing tll=1s\nstand at=0", "story.txt:1 tll", "option must be one of ttl, heartbeat"),
        ("timing misses=0\nstand at=0", "story.txt:1 0", "misses must be a whole number from 1 on"),
        (
            "timing grace=9s\nstand at=0",
            "story.txt:1 ttl 8 s",
            "timing must satisfy renew_every + attempt_timeout + grace",
        ),
        ("stand at=0\ntiming ttl=8s", "story.txt:2 timing ttl=8s", "timing must stand once, before the first event"),
        ("timing\ntiming\nstand at=0", "story.txt:2 timing", "timing must stand once, before the first event"),
    ],
)
def test_a_bad_script_is_refused_with_its_place_and_the_rule(text: str, value: str, rule: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, "story.txt")
    assert caught.value.setting == "script"
    assert caught.value.value.startswith(value)
    assert rule in caught.value.rule
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value", "rule"),
    [
        (
            "granted 1 token=7 at=0",
            "story.txt:1 1",
            "attempt was never sent as a claim or renewal, so bid= must be said",
        ),
        ("stand at=0\nmust-wait 2 at=0", "story.txt:2 2", "attempt was never sent as a claim or renewal"),
        ("stand at=0\ngranted 1 at=0", "story.txt:2 1", "granted must name its token unless it answers a renewal"),
    ],
)
def test_an_answer_that_leaves_open_what_it_speaks_of_is_refused(text: str, value: str, rule: str) -> None:
    script = parse(text, "story.txt")
    with pytest.raises(ConfigError) as caught:
        run(script)
    assert (caught.value.setting, caught.value.value) == ("script", value)
    assert rule in caught.value.rule


def test_a_file_is_loaded_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "story.txt"
    path.write_text(STORY, encoding="utf-8-sig")  # Some editors put a mark before the first letter.
    assert load(path) == parse(STORY, str(path))


def test_a_file_that_cannot_be_read_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be a file that can be read: No such file") as missing:
        load(tmp_path / "missing.txt")
    assert missing.value.value == str(tmp_path / "missing.txt")
    with pytest.raises(ConfigError, match="must be a regular file"):
        load(tmp_path)
    with pytest.raises(ConfigError, match="must be a file that can be read: embedded null"):
        load("story\0.txt")
    (tmp_path / "latin.txt").write_bytes(b"# caf\xe9\n")
    with pytest.raises(ConfigError, match="must be UTF-8, and byte 5 is not"):
        load(tmp_path / "latin.txt")
    (tmp_path / "large.txt").write_bytes(b"#" * (SCRIPT_BYTES_MAX + 1))
    with pytest.raises(ConfigError, match=f"must have at most {SCRIPT_BYTES_MAX} bytes"):
        load(tmp_path / "large.txt")


@pytest.mark.parametrize(
    "ns", [0, 1, 999, 1000, 1500, 40_000_000, 62_500_000, 2_500_000_000, 3592_080_000_000, 2**63 - 2]
)
def test_a_time_that_was_written_is_read_as_the_same(ns: int) -> None:
    assert read_time("at", write_time(ns)) == ns


def test_states_of_the_example_in_the_manual_are_true() -> None:
    manual = "\n".join(line.strip() for line in (runner.__doc__ or "").split("::\n\n")[1].split("\n\n")[0].splitlines())
    outcome = run(parse(manual))
    assert (len(outcome.actual), outcome.mismatches) == (2, [])
    assert (CLAIMING, Granted, SEALING) in outcome.walked

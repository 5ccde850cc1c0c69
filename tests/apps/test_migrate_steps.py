"""Steps are read whole and refused whole, before anything is applied."""

import os
from functools import partial
from pathlib import Path

import pytest

from tenure.apps.ledger.base import Kind, Statement
from tenure.apps.migrate.plan import Record
from tenure.apps.migrate.plan import plan as plan_of
from tenure.apps.migrate.statements import NeverEnds, split
from tenure.apps.migrate.steps import How, steps_of
from tenure.errors import ConfigError

plan = partial(plan_of, in_office=True)


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name.replace('__', '.')}").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("kind", "text", "statements"),
    [
        ("sqlite", "A;B", ["A", "B"]),
        ("sqlite", " -- first;\nA 'x;y' ;; /* ; */ B \";\" ; -- last", ["A 'x;y'", 'B ";"']),
        ("sqlite", "A 'it''s; not' ; B", ["A 'it''s; not'", "B"]),
        (
            "sqlite",
            "CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE b SET n = CASE WHEN 1 THEN 2 END; DELETE FROM c; END; A",
            [
                "CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE b SET n = CASE WHEN 1 THEN 2 END; DELETE FROM c; END",
                "A",
            ],
        ),
        ("postgresql", "DO $$ BEGIN A; END $$; B $x$ ; $$ ; $x$", ["DO $$ BEGIN A; END $$", "B $x$ ; $$ ; $x$"]),
        ("postgresql", r"A E'it\'s;' ; B '\'; C", [r"A E'it\'s;'", r"B '\'", "C"]),
        ("postgresql", "SELECT $1; B", ["SELECT $1", "B"]),
        ("mysql", r"A 'it\'s;' ; B `;` ; # a; comment" + "\nC", [r"A 'it\'s;'", "B `;`", "C"]),
        (
            "mysql",
            "A; CREATE PROCEDURE p() BEGIN IF a THEN B; END IF; END",
            ["A", "CREATE PROCEDURE p() BEGIN IF a THEN B; END IF; END"],
        ),
        ("mysql", "/*!40101 SET x = 1 */; B", ["/*!40101 SET x = 1 */", "B"]),
        (
            "sqlite",
            "CREATE TRIGGER t AFTER UPDATE ON a WHEN new.end > 1 BEGIN DELETE FROM [end]; END; B",
            ["CREATE TRIGGER t AFTER UPDATE ON a WHEN new.end > 1 BEGIN DELETE FROM [end]; END", "B"],
        ),
        ("postgresql", "/* a /* b */ DROP TABLE users; -- */\nA", ["A"]),
        (
            "postgresql",
            "CREATE RULE r AS ON INSERT TO a DO (B; C); D",
            ["CREATE RULE r AS ON INSERT TO a DO (B; C)", "D"],
        ),
        (
            "postgresql",
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END; A",
            ["CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END", "A"],
        ),
        ("postgresql", "A E'a'\n'b\\'; C' ; D", ["A E'a'\n'b\\'; C'", "D"]),
        ("postgresql", "A a$1$b ; B", ["A a$1$b", "B"]),
        ("mysql", "A /*M!100100 ; */ ; B", ["A /*M!100100 ; */", "B"]),
        ("mysql", "A 5--3; B", ["A 5--3", "B"]),
        ("sqlite", " ; -- nothing\n", []),
    ],
)
def test_statements_end_at_semicolons_that_nothing_hides(kind: Kind, text: str, statements: list[str]) -> None:
    assert split(text, kind) == statements


@pytest.mark.parametrize("text", ["A 'never; ends", "A /* never; ends", 'A "never', "A /* /* */"])
def test_what_never_ends_is_no_statement(text: str) -> None:
    with pytest.raises(NeverEnds):
        split(text, "postgresql")


def test_a_long_text_is_split_in_one_pass() -> None:
    rows = [f"INSERT INTO a VALUES ({number}, 'it''s; {number}')" for number in range(20_000)]  # noqa: S608
    assert split(";\n".join(rows), "mysql") == rows


def test_steps_are_in_the_order_of_their_numbers_and_say_how_they_are_applied(tmp_path: Path) -> None:
    folder = written(
        tmp_path,
        **{
            "10-ten__sql": "A",
            "2_two__sql": "-- Why it is there.\n-- tenure: no-transaction repeatable\nA;\nB",
            "01_one__py": "# tenure: no-transaction\ndef apply(connection): ...",
            **{f"{number}_more__sql": "A" for number in range(3, 10)},
            "_helper__py": "not a step",
            "README__md": "not a step",
        },
    )
    steps = steps_of(folder, "sqlite")
    assert [step.number for step in steps] == list(range(1, 11))
    assert [step.how for step in steps[:3]] == [How.ONCE, How.REPEATABLE, How.TRANSACTION]
    assert steps[1].work == (Statement("A"), Statement("B"))
    assert len({step.checksum for step in steps}) == 3


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "has no step"),
        ({"1_a__sql": "A", "1_b__sql": "B"}, "two steps 1: a and b"),
        ({"1_a__sql": "A", "4_d__sql": "B"}, "4 d is there, and 2 to 3 is not"),
        ({"2_a__sql": "A"}, "2 a is there, and 1 is not"),
        ({"a__sql": "A"}, "must be called by its number"),
        ({"1_a__sql": " ;-- nothing"}, "has no statement"),
        ({"1_a__sql": "A; COMMIT; B"}, "must not COMMIT"),
        ({"1_a__sql": "begin; A"}, "must not BEGIN"),
        ({"1_a__sql": "A; start  transaction; B"}, "must not START TRANSACTION"),
        ({"1_a__sql": "SET @@session.autocommit = 1"}, "must not SET @@SESSION.AUTOCOMMIT"),
        ({"1_a__sql": "A; /* not yet: ; B"}, "never ends"),
        ({"1_a__sql": "COPY a (b) FROM stdin;"}, "must not COPY FROM STDIN"),
        ({"1_A__SQL": "A"}, "must be called by its number"),
        ({"1_a__py": "return 1"}, "is not Python"),
        ({"1_a__py": "async def apply(connection): pass"}, "must not be async"),
        ({"1_a__sql": "-- tenure: no-transactions\nA"}, "must say no-transaction"),
        ({"1_a__py": "def apply(: pass"}, "is not Python"),
        ({"1_a__py": "def run(connection): pass"}, r"must have a function apply\(connection\)"),
    ],
)
def test_a_folder_with_something_wrong_in_it_is_one_error(tmp_path: Path, files: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        steps_of(written(tmp_path, **files), "sqlite")


def test_a_step_that_is_not_utf8_is_named_with_the_place(tmp_path: Path) -> None:
    (tmp_path / "1_a.sql").write_bytes(b"SELECT '\xff'")
    with pytest.raises(ConfigError, match=r"1_a\.sql: must be UTF-8, and is not at byte 8"):
        steps_of(tmp_path, "sqlite")


def test_a_folder_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        steps_of(tmp_path / "none", "sqlite")


def test_what_mysql_commits_by_itself_must_be_declared(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="MySQL commits CREATE by itself"):
        steps_of(written(tmp_path, **{"1_a__sql": "INSERT INTO a VALUES (1); CREATE TABLE b (c int)"}), "mysql")
    written(tmp_path, **{"1_a__sql": "-- tenure: no-transaction\nCREATE TABLE b (c int)"})
    assert steps_of(tmp_path, "mysql")[0].how is How.ONCE
    for hidden in ("/*!40000 ALTER TABLE a ADD b int */", "/*M!100100 DROP TABLE a */", "SET  PASSWORD = 'x'"):
        written(tmp_path, **{"1_a__sql": f"INSERT INTO a VALUES (1); {hidden}"})  # noqa: S608
        with pytest.raises(ConfigError, match="by itself"):
            steps_of(tmp_path, "mysql")
    written(tmp_path, **{"1_a__sql": "CREATE TEMPORARY TABLE b (c int); ROLLBACK TO SAVEPOINT c"})
    assert len(steps_of(tmp_path, "mysql")[0].work) == 2


def test_a_step_without_a_transaction_may_have_its_own(tmp_path: Path) -> None:
    steps = steps_of(written(tmp_path, **{"1_a__sql": "-- tenure: no-transaction\nBEGIN; A; COMMIT"}), "postgresql")
    assert len(steps[0].work) == 3


def test_a_step_that_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "1_a.sql")
    with pytest.raises(ConfigError, match="must be a file"):
        steps_of(tmp_path, "sqlite")


def recorded(number: int, checksum: str, state: str = "applied") -> Record:
    return Record(number, f"s{number}", checksum, state, 7, "then")  # type: ignore[arg-type]


def test_what_was_not_applied_is_pending(tmp_path: Path) -> None:
    steps = steps_of(written(tmp_path, **{f"{number}_s{number}__sql": f"A {number}" for number in (1, 2, 3)}), "sqlite")
    assert plan(steps, []).pending == tuple(steps)
    assert plan(steps, [recorded(1, steps[0].checksum), recorded(2, steps[1].checksum)]).pending == (steps[2],)
    assert plan(steps, [recorded(step.number, step.checksum) for step in steps]).pending == ()


def test_all_that_does_not_fit_is_told_at_once(tmp_path: Path) -> None:
    steps = steps_of(written(tmp_path, **{f"{number}_s{number}__sql": f"A {number}" for number in (1, 2, 3)}), "sqlite")
    found = [recorded(1, "another"), recorded(3, steps[2].checksum), recorded(4, "newer")]
    with pytest.raises(ConfigError) as told:
        plan(steps, found)
    for part in ("1 s1: was changed", "2 s2: comes before 4", "4 s4: applied, and not in the folder"):
        assert part in str(told.value)
    with pytest.raises(ConfigError, match="1 wrong: 1 s1"):
        plan(steps, [recorded(1, "another")], allow_newer=True)


def test_a_program_with_fewer_steps_goes_on_only_if_it_is_told_to(tmp_path: Path) -> None:
    steps = steps_of(written(tmp_path, **{"1_s1__sql": "A"}), "sqlite")
    found = [recorded(1, steps[0].checksum), recorded(2, "newer")]
    with pytest.raises(ConfigError, match="--allow-newer"):
        plan(steps, found)
    assert plan(steps, found, allow_newer=True).newer == (found[1],)


def test_a_step_that_was_begun_is_begun_again_only_if_it_may_be(tmp_path: Path) -> None:
    written(
        tmp_path,
        **{"1_s1__sql": "-- tenure: no-transaction repeatable\nA", "2_s2__sql": "-- tenure: no-transaction\nA"},
    )
    steps = steps_of(tmp_path, "sqlite")
    assert plan(steps, [recorded(1, steps[0].checksum, "begun")]).pending == tuple(steps)
    with pytest.raises(ConfigError, match="--settle 2=applied or --settle 2=undone"):
        plan(steps, [recorded(1, steps[0].checksum), recorded(2, steps[1].checksum, "begun")])
    # Who is not in office cannot know: its runner may be at it.
    assert plan_of(steps, [recorded(2, steps[1].checksum, "begun")], in_office=False).pending == tuple(steps)

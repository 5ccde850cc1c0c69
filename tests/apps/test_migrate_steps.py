"""Steps are read whole and refused whole, before anything is applied."""

from pathlib import Path

import pytest

from tenure.apps.ledger.base import Kind, Statement
from tenure.apps.migrate.plan import Record, plan
from tenure.apps.migrate.statements import split
from tenure.apps.migrate.steps import How, steps_of
from tenure.errors import ConfigError


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
            "CREATE PROCEDURE p() BEGIN IF a THEN B; END IF; WHILE c DO D; END WHILE; END; E",
            ["CREATE PROCEDURE p() BEGIN IF a THEN B; END IF; WHILE c DO D; END WHILE; END", "E"],
        ),
        ("mysql", "/*!40101 SET x = 1 */; B", ["/*!40101 SET x = 1 */", "B"]),
        ("sqlite", "A 'never ends; B", ["A 'never ends", "B"]),  # The database will say what is wrong with it.
        ("sqlite", " ; -- nothing\n", []),
    ],
)
def test_statements_end_at_semicolons_that_nothing_hides(kind: Kind, text: str, statements: list[str]) -> None:
    assert split(text, kind) == statements


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

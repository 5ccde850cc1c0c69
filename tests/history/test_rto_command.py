"""``tenure history`` judges a hand-over by how its store tells standbys of a release."""

from pathlib import Path

from tests.history.test_history_command import Desk


def test_at_a_store_that_tells_nobody_a_hand_over_is_allowed_the_time_until_the_next_look(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for _ in range(2):
        assert desk.run("run", "jobs", "--once", "--", "true").returncode == 0
    (change,) = desk.history("jobs")["rto"]["changes"]
    assert (change["reason"], change["planned_detect_s"], change["planned_elect_s"]) == ("resigned", 0.5, 1.0)
    assert change["planned_s"] == 1.5

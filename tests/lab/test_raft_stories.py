"""Each story shows what its moral says."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tenure.errors import ConfigError
from tenure.lab.raft.checkers import check
from tenure.lab.raft.lanes import lanes_svg
from tenure.lab.raft.messages import Role
from tenure.lab.raft.seeds import SCALE_NS
from tenure.lab.raft.stage import Stage, perform, state, told
from tenure.lab.raft.stories import STORIES, find

ROOT = Path(__file__).parents[2]


def lines_of(stage: Stage) -> str:
    return "\n".join(told(stage.world.history))


def elected(stage: Stage) -> list[tuple[int, int]]:
    return [
        (entry.number, entry.who)
        for entry in stage.world.history
        if entry.kind == "became" and entry.detail[0] is Role.LEADER
    ]


@pytest.mark.parametrize("name", STORIES)
def test_no_story_breaks_a_promise_and_each_has_a_picture(name: str) -> None:
    stage = perform(STORIES[name])
    assert check(stage.world.history, stage.world.plan, SCALE_NS) == []
    picture = ET.fromstring(lanes_svg(STORIES[name], stage))  # noqa: S314  (we have written it ourselves)
    assert len(picture.findall(".//{http://www.w3.org/2000/svg}circle")) > 10


def test_a_normal_election_takes_one_round_and_the_command_is_committed_by_all() -> None:
    stage = perform(find("normal-election"))
    assert elected(stage) == [(1, 0)]
    assert [row[-1] for row in state(stage)[1:]] == ["1"] * 5


def test_in_a_split_vote_nobody_wins_the_first_term() -> None:
    stage = perform(find("split-vote"))
    assert elected(stage) == [(2, 0)]
    assert "A stands for term 1" in lines_of(stage)
    assert "B stands for term 1" in lines_of(stage)


def test_in_a_partition_two_lead_at_once_and_only_the_majority_commits() -> None:
    lines = lines_of(perform(find("partition")))
    assert "x=old to be committed" not in lines
    assert "C knows x=new to be committed" in lines
    assert lines.index("C LEADS term 2") < lines.index("A steps down")
    assert "A cuts x=old from its log, and writes x=new there" in lines


def test_with_check_quorum_the_old_leader_gives_up_by_itself() -> None:
    assert "A steps down: hears of no majority" in lines_of(perform(find("check-quorum")))


def test_nobody_waits_for_a_slow_follower_and_it_catches_up() -> None:
    stage = perform(find("slow-follower"))
    lines = lines_of(stage)
    assert lines.index("A knows x=4 to be committed") < lines.index("E goes on") < lines.index("E writes")
    assert state(stage)[5][-1] == "4"


def test_who_lacks_a_committed_entry_is_refused_and_the_next_leader_has_it() -> None:
    stage = perform(find("crash-after-commit"))
    lines = lines_of(stage)
    assert "C refuses D: C has a newer log" in lines
    assert "D LEADS" not in lines
    assert "B knows x=1, x=2 to be committed" in lines


def test_what_no_majority_has_is_overwritten() -> None:
    assert "A cuts x=lost, y=lost from its log, and writes x=2 there" in lines_of(perform(find("overwritten")))


def test_a_server_that_comes_back_deposes_the_leader_unless_there_is_pre_vote() -> None:
    disrupted, cured = perform(find("disruption")), perform(find("pre-vote"))
    assert len(elected(disrupted)) == 2
    assert "A steps down: hears of a later term" in lines_of(disrupted)
    assert elected(cured) == [(1, 0)]
    assert {row[2] for row in state(cured)[1:]} == {"1"}


def test_an_old_entry_that_a_majority_has_is_not_committed_and_is_overwritten() -> None:
    lines = lines_of(perform(find("figure-8")))
    assert "2.2 to be committed" not in lines
    assert "C cuts 2.2 from its log, and writes 3.2 there" in lines
    assert "E knows 1.1, 3.2, x=5 to be committed" in lines


def test_an_unknown_story_is_refused_with_the_list() -> None:
    with pytest.raises(ConfigError, match="split-vote"):
        find("nonsense")


DRAWN = [page for page in sorted((ROOT / "docs" / "explanation").glob("raft-*.svg")) if page.stem != "raft-figure16"]


@pytest.mark.parametrize("page", DRAWN, ids=lambda page: page.stem)
def test_the_pictures_of_the_page_are_what_the_command_draws(page: Path) -> None:
    name = page.stem.removeprefix("raft-")
    assert page.read_text() == lanes_svg(STORIES[name], perform(STORIES[name])), f"--story {name} --svg {page}"


def test_there_are_such_pictures_and_every_story_of_the_paper_is_told() -> None:
    assert len(DRAWN) >= 4
    told_of = {"normal-election", "split-vote", "partition", "slow-follower", "crash-after-commit", "overwritten"}
    assert told_of | {"pre-vote", "check-quorum", "figure-8"} <= set(STORIES)

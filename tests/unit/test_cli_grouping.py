"""How shards are shown among other elections."""

from tenure.cli.grouping import grouped
from tenure.cli.output import columns
from tenure.model import Holder, Incumbent, token
from tenure.stores.base import ElectionStatus

ADA, BOB = Holder("ada", 1, "n"), Holder("bob", 2, "n")


def status(election: str, holder: Holder | None) -> ElectionStatus:
    incumbent = None if holder is None else Incumbent(election, holder, token(1))
    return ElectionStatus(election, incumbent, None, None, resign_asked=False, standbys=())


def test_members_are_shown_with_how_many_shards_they_own_and_shards_only_without_an_owner() -> None:
    found = [
        status("billing", ADA),
        *(status(f"crawl/{number}", ADA if number < 3 else BOB) for number in range(4)),
        status("crawl/4", None),
        status("crawl/members/a", ADA),
        status("crawl/members/b", BOB),
        status("crawl/members/c", None),
    ]
    shown, notes = grouped(found)
    names = ["billing", "crawl/4", "crawl/members/a", "crawl/members/b", "crawl/members/c"]
    assert [one.election for one in shown] == names
    assert notes == {"crawl/members/a": "owns 3 shards", "crawl/members/b": "owns 1 shard"}
    assert "owns 3 shards" in columns(shown, "memory://", notes)


def test_elections_that_are_called_by_numbers_and_are_no_shards_are_shown() -> None:
    found = [status("tenants/1", ADA), status("tenants/2", BOB), status("crawl/members/a", ADA)]
    assert grouped(found)[0] == found

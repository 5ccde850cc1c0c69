"""How elections are shown to people, to pipes and to programs."""

import io
import json

import pytest
from rich.console import Console

from tenure.cli.output import COLUMNS, as_object, columns, duration, shown, table
from tenure.model import Holder, Incumbent, Token
from tenure.stores.base import ElectionStatus

ADDRESS = "sqlite:///var/lib/tenure.db"
ADA, BOB = Holder("ada.example", 17, "0123456789abcdef"), Holder("bob.example", 4, "fedcba9876543210")


def led(
    election: str = "billing/close", advertised: str = "http://10.0.0.5:8080", *, asked: bool = False
) -> ElectionStatus:
    incumbent = Incumbent(election, ADA, Token(7), advertised)
    return ElectionStatus(election, incumbent, 200_000_000_000, 5_250_000_000, resign_asked=asked, standbys=(BOB,))


def vacant(election: str = "reports") -> ElectionStatus:
    return ElectionStatus(election, None, None, None, resign_asked=False, standbys=())


def drawn(*statuses: ElectionStatus, width: int, note: str = "") -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(table(statuses, ADDRESS, note=note))
    written = console.file
    assert isinstance(written, io.StringIO)
    return written.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0s"),
        (3.24, "3.2s"),
        (59.94, "59.9s"),
        (59.96, "1m00s"),
        (65, "1m05s"),
        (3599.9, "1h00m"),
        (7385, "2h03m"),
        (90_000, "1d01h"),
    ],
)
def test_a_duration_is_short_and_in_the_form_that_options_take(seconds: float, text: str) -> None:
    assert duration(round(seconds * 1e9)) == text


def test_an_unknown_duration_is_a_dash() -> None:
    assert duration(None) == "-"


def test_an_object_has_every_field_in_seconds() -> None:
    assert as_object(led(asked=True)) == {
        "election": "billing/close",
        "leader": {"holder": str(ADA), "host": "ada.example", "pid": 17, "nonce": "0123456789abcdef"},
        "token": 7,
        "since_s": 200.0,
        "remaining_s": 5.25,
        "standbys": [str(BOB)],
        "advertised": "http://10.0.0.5:8080",
        "resign_asked": True,
    }


def test_an_office_that_nobody_holds_has_the_same_fields_without_values() -> None:
    told = as_object(vacant())
    assert list(told) == list(as_object(led()))
    assert [key for key, value in told.items() if value] == ["election"]


def test_columns_are_aligned_and_cut_nowhere() -> None:
    long = led("x" * 250)
    head, first, second, third = columns([led(), vacant(), long], ADDRESS).splitlines()
    assert head.lower().split() == [*COLUMNS, "store"]
    assert first.split() == [
        "billing/close",
        str(ADA),
        "7",
        "3m20s",
        "5.2s",
        "1",
        "http://10.0.0.5:8080",
        "-",
        ADDRESS,
    ]
    assert second.split() == ["reports", "nobody", "-", "-", "-", "0", "-", "-", ADDRESS]
    assert third.startswith("x" * 250 + "  ")
    assert len({line.index(ADDRESS) for line in (first, second, third)}) == 1


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_table_keeps_to_its_width_and_loses_nothing(width: int) -> None:
    lines = drawn(led(), vacant(), width=width).splitlines()
    assert max(map(len, lines)) <= width
    # What is folded stands in parts among other columns, so only its letters can be counted.
    assert "…" not in "".join(lines)
    assert "".join(lines).count("0") == drawn(led(), vacant(), width=1000).count("0")


def test_a_table_names_the_store_and_who_leads_without_the_nonce() -> None:
    picture = drawn(led(), vacant(), width=120)
    assert ADDRESS in picture
    assert "ada.example/17" in picture
    assert ADA.nonce not in picture


def test_a_table_has_columns_for_an_address_and_a_note_only_if_there_is_one() -> None:
    bare, full = drawn(led(advertised=""), width=120), drawn(led(asked=True), width=120)
    assert "address" not in bare
    assert "note" not in bare
    assert "http://10.0.0.5:8080" in full
    assert "resign-asked" in full


def test_a_table_without_rows_says_so_and_a_note_stands_below() -> None:
    assert "no elections yet" in drawn(width=80)
    assert drawn(led(), width=80, note="cannot be asked").rstrip().endswith("cannot be asked")


def test_a_name_in_brackets_is_no_order_to_the_terminal() -> None:
    assert "[red]close[/red]" in drawn(led("[red]close[/red]"), width=120)


def test_what_a_terminal_would_obey_is_replaced_everywhere() -> None:
    evil = "http://x/\x1b[2J\x07"
    assert shown("a\x1b[2Jb") == "a\N{REPLACEMENT CHARACTER}[2Jb"
    for picture in (columns([led(advertised=evil)], ADDRESS), drawn(led(advertised=evil), width=120)):
        assert "http://x/" in picture
        assert not {"\x1b", "\x07"} & set(picture)
    assert "\x1b" not in json.dumps(as_object(led(advertised=evil)))


def test_a_password_in_an_advertised_address_is_not_shown() -> None:
    told = led(advertised="http://ada:hunter2@10.0.0.5:8080")
    for picture in (columns([told], ADDRESS), drawn(told, width=200), json.dumps(as_object(told))):
        assert "10.0.0.5:8080" in picture
        assert "hunter2" not in picture

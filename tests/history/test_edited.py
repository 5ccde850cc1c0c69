"""Documents that a hand or another program has changed: they are refused in one line, or shown; and nothing else happens."""

import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tenure
from tenure.apps.history.records import dumped, loaded, merged
from tenure.apps.history.rto import report
from tenure.apps.history.told import told
from tenure.cli.timeline import ASCII, instant, lasted, span, timeline, why
from tenure.errors import ConfigError
from tests.history.making import TRAITS
from tests.user import at_home

NUMBERS = st.one_of(
    st.floats(),
    st.integers(-(10**400), 10**400),
    st.floats(1.7e9, 1.8e9),
    st.sampled_from([0, -1, 1e12, -1e12, 1e308, -1e308]),
)
TEXTS = st.text(max_size=12) | NUMBERS | st.none()
TENURES = st.fixed_dictionaries(
    {"t": st.integers(-1, 9) | NUMBERS, "h": TEXTS, "b": NUMBERS},
    optional={
        **dict.fromkeys("lcsmoe", NUMBERS),
        **dict.fromkeys("ra", TEXTS),
        "x": st.integers(-1, 9) | NUMBERS,
        "w": st.lists(NUMBERS, max_size=4),
        "d": st.lists(st.integers(-1, 9) | NUMBERS, max_size=3),
    },
)


@given(st.lists(TENURES, max_size=4), st.floats(0, 4e9), st.integers(20, 200))
def test_whatever_numbers_are_in_a_document_it_is_refused_or_shown(
    tenures: list[object], now_s: float, width: int
) -> None:
    try:
        log = loaded("jobs", json.dumps({"format": 1, "tenures": tenures}).encode())
    except ConfigError:
        return
    assert loaded("jobs", dumped(merged(log, []))) == merged(log, [])
    found = told("jobs", log, TRAITS, None, now_s)
    json.dumps([report(found, TRAITS).as_json(), *(one.as_json() for one in found)], allow_nan=False)
    for one in found:
        assert all(
            isinstance(text, str) for text in (instant(one.began_s), lasted(one, now_s), span(one.gap), why(one))
        )
    if found:
        assert len(timeline(found, now_s, width, ASCII)) == len(found) + 1


@pytest.mark.parametrize(
    ("document", "code", "said"),
    [
        (b'{"format":1,"tenu', 2, "in a form that this version does not know"),
        (b'{"format":1,"tenures":[{"t":1,"h":"a","b":1e300}]}', 2, "in a form that this version does not know"),
        (b'{"format":1,"tenures":[{"t":1,"h":"\\u001b[2J\\nx/1/0","b":1e11}]}', 0, ""),
    ],
    ids=["torn", "too large a number", "a holder that would clear the screen"],
)
def test_a_document_that_was_changed_by_hand_is_one_line_or_shown_without_its_tricks(
    document: bytes, code: int, said: str, tmp_path: Path
) -> None:
    url = f"sqlite://{tmp_path / 'x.db'}"

    async def change() -> None:
        async with tenure.open_store(url) as store:
            await store.update("tenure/history/jobs", lambda _: document)

    anyio.run(change)
    for more in ([], ["--json"]):
        command = [sys.executable, "-m", "tenure", "history", "jobs", "--store", url, *more]
        run = subprocess.run(command, env=at_home(tmp_path), capture_output=True, text=True, check=False, timeout=60)
        assert run.returncode == code, run.stderr
        assert said in run.stderr
        assert len(run.stderr.splitlines()) == (1 if code else 0), run.stderr
        assert "\x1b" not in run.stdout

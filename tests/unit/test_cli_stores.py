"""Commands over stores that can do less than SQLite, or that cannot be opened here."""

import json
from pathlib import Path

import pytest

from tenure.cli.commands import tenure
from tenure.errors import ConfigError, Refused
from tenure.model import Grant, Holder, Incumbent, Token
from tenure.stores import opening
from tenure.stores.memory import MemoryStore

HOLDER = Holder("ada.example", 17, "0123456789abcdef")
LED = "led"


class PlainStore:
    """A store that can only be read."""

    address = "plain://engine"
    traits = MemoryStore().traits

    async def read(self, election: str) -> Incumbent | None:
        if election == "refused":
            raise Refused(self.address, "read", "not today")
        return Incumbent(election, HOLDER, Token(7)) if election == LED else None


class CoupStore(PlainStore):
    """A store in which a successor is in office at the very instant in which the leader has left."""

    async def ask_to_resign(self, election: str) -> Incumbent | None:
        return Incumbent(election, HOLDER, Token(6))

    def resign_asked(self, grant: Grant) -> bool:
        raise NotImplementedError(grant)


def from_url(url: str) -> PlainStore:
    return CoupStore() if url.startswith("coup://") else PlainStore()


@pytest.fixture(autouse=True)
def schemes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Register a store that can only be read, and one whose client nobody has installed."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    scheme = type(opening.SCHEMES["sqlite"])
    monkeypatch.setitem(opening.SCHEMES, "plain", scheme(__name__, "from_url"))
    monkeypatch.setitem(opening.SCHEMES, "coup", scheme(__name__, "from_url"))
    monkeypatch.setitem(opening.SCHEMES, "absent", scheme(__name__, "from_url", "no_such_client"))


def run(*arguments: str) -> object:
    return tenure(list(arguments), standalone_mode=False)


def test_a_store_that_cannot_list_is_asked_for_each_election_that_was_named(capfd: pytest.CaptureFixture[str]) -> None:
    run("status", "vacant", LED, "--store", "plain://ada:hunter2@engine", "--json")
    told = json.loads(capfd.readouterr().out)
    assert told["store"] == "plain://engine"
    assert [(found["election"], found["token"], found["since_s"]) for found in told["elections"]] == [
        ("vacant", None, None),
        (LED, 7, None),
    ]


def test_a_store_that_cannot_list_needs_names() -> None:
    with pytest.raises(ConfigError, match="must be named, because plain://engine cannot list its elections"):
        run("status", "--store", "plain://engine")


def test_watch_asks_a_store_that_cannot_list_for_what_was_named(capfd: pytest.CaptureFixture[str]) -> None:
    run("watch", LED, "--for", "0", "--store", "plain://engine")
    assert "led: led by ada.example/17/0123456789abcdef with token 7\n" in capfd.readouterr().out


def test_a_store_that_refuses_is_told_as_it_said_it() -> None:
    with pytest.raises(Refused, match="plain://engine: read was refused: not today"):
        run("status", "refused", "--store", "plain://engine")


def test_a_store_that_cannot_pass_on_a_request_to_resign_says_what_to_do_instead() -> None:
    with pytest.raises(ConfigError, match="plain://engine: cannot pass on such a request: end the leader's process"):
        run("resign", LED, "--store", "plain://engine")


def test_resign_waits_for_the_end_of_one_tenure_and_not_for_an_empty_office(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("resign", LED, "--wait", "0", "--store", "coup://engine") == 0
    assert capfd.readouterr().out.endswith("(token 6) has left\n")


@pytest.mark.parametrize("command", ["status", "watch", "resign"])
def test_a_client_that_is_not_installed_is_named_with_the_command_that_installs_it(command: str) -> None:
    with pytest.raises(ConfigError, match=r"pip install 'tenure\[absent\]'") as refused:
        run(command, LED, "--store", "absent://ada:hunter2@engine")
    assert "hunter2" not in str(refused.value)

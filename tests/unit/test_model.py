"""The values: bounds of tokens, identities that are never used twice, and values that cannot change."""

import dataclasses
import os
import pickle
import socket
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import ConfigError
from tenure.model import TOKEN_MAX, Bid, Ended, Grant, Holder, Incumbent, Token, Wait, token

HOLDER = Holder("host", 7, "f00d")
BID = Bid("e", HOLDER, 1, 8_000_000_000)
VALUES = [
    HOLDER,
    BID,
    Grant(BID, Token(3)),
    Incumbent("e", HOLDER, Token(3)),
    Wait(BID, None),
    Ended(BID, Token(3)),
]


@given(st.integers(1, TOKEN_MAX))
def test_every_number_that_all_engines_can_hold_is_a_token(number: int) -> None:
    assert token(number) == number


@given(st.integers(max_value=0) | st.integers(min_value=TOKEN_MAX + 1))
def test_no_other_number_is_a_token(number: int) -> None:
    with pytest.raises(ConfigError, match="must lie between 1 and 9223372036854775807") as caught:
        token(number)
    assert (caught.value.setting, caught.value.value) == ("token", str(number))


@pytest.mark.parametrize("nonsense", ["7", 7.0, 7.5, True, None])
def test_whatever_is_no_integer_is_no_token_even_if_it_compares_as_one(nonsense: Any) -> None:
    with pytest.raises(ConfigError, match=r"token = .*: must be an integer"):
        token(nonsense)


def test_the_bounds_are_those_of_a_signed_64_bit_integer_without_zero() -> None:
    assert (token(1), token(2**63 - 1)) == (1, TOKEN_MAX)


def test_a_holder_names_its_host_and_its_process() -> None:
    holder = Holder.fresh()
    assert (holder.host, holder.pid) == (socket.gethostname(), os.getpid())
    assert str(holder) == f"{holder.host}/{holder.pid}/{holder.nonce}"


def test_a_fresh_holder_is_nobody_who_has_been() -> None:
    assert len({Holder.fresh() for _ in range(1000)}) == 1000


def test_a_holder_is_fresh_again_after_a_fork() -> None:
    # In a process of its own: to fork a test run with threads is not safe.
    script = (
        "import os; from tenure.model import Holder; before = Holder.fresh(); child = os.fork()\n"
        "child and os.waitpid(child, 0)\n"
        "print(before, Holder.fresh(), flush=True)"
    )
    command = [sys.executable, "-c", script]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    holders = [holder for line in lines for holder in line.split()]
    assert len(holders) == 4
    assert len(set(holders)) == 3  # The one from before the fork is known to both.
    assert len({holder.split("/")[-1] for holder in holders}) == 3  # The pid is not what tells them apart.


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_are_frozen_hashable_and_survive_pickling(value: object) -> None:
    assert dataclasses.is_dataclass(value)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, None)
    assert len({value, pickle.loads(pickle.dumps(value))}) == 1  # noqa: S301  (our own bytes)


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.replace(BID, serial=2),
        dataclasses.replace(BID, election="f"),
        dataclasses.replace(BID, holder=dataclasses.replace(HOLDER, nonce="beef")),
    ],
)
def test_another_serial_election_or_holder_is_another_bid(other: Bid) -> None:
    assert other != BID


@pytest.mark.parametrize("other", [dataclasses.replace(BID, ttl_ns=1), dataclasses.replace(BID, advertise="http://a")])
def test_another_ttl_or_address_is_the_same_bid(other: Bid) -> None:
    assert (other, hash(other)) == (BID, hash(BID))

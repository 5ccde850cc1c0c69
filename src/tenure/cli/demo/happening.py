"""What the demo is made of: something that happened, when, and to whom."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class What(StrEnum):
    """What can happen. The names are what the candidates say, and what ``--json`` prints."""

    STARTED = "started"  # more: pid
    WAITS = "waits"
    GRANTED = "granted"  # more: sent_ns, when the claim was sent
    SEALED = "sealed"
    ELECTED = "elected"
    RENEWED = "renewed"  # more: sent_ns
    READY = "ready"  # about to pay: the invoice is chosen, the tenure checked, nothing sent
    SENDS = "sends"
    ACCEPTED = "accepted"  # more: total
    REJECTED = "rejected"  # more: highest
    OVERSTAYED = "overstayed"  # more: late_by_ns
    LEFT = "left"  # more: reason
    ENDING = "ending"  # it ends itself; more: why
    ENDED = "ended"  # the process is gone; more: exit_code
    FROZEN = "frozen"
    WOKEN = "woken"
    KILLED = "killed"
    LISTENS = "listens"  # a worker of the failover can be reached; more: url
    LEADS = "leads"  # its body has begun
    LOADED = "loaded"
    WARMED = "warmed"
    SERVES = "serves"
    DELIVERED = "delivered"  # more: worker
    REFUSED = "refused"  # more: worker, highest
    ANSWERED = "answered"  # a client was, by the leader
    AUDITED = "audited"  # the ledger as its file has it; more: payments, total, faults


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened. ``at_ns`` is the boot clock of the machine, which all of its processes share."""

    at_ns: int
    act: int
    who: str  # a candidate, or the ledger
    what: What
    token: int = 0
    invoice: int = 0
    more: Mapping[str, Any] = field(default_factory=dict)


class StoryBroken(Exception):
    """The story did not happen as it should; the text says in one line what is missing. Never leaves the demo."""

"""Who may be the primary: decided from what is known, without IO.

Why it is safe. A primary acknowledges a commit only when every *synchronous* replica has it. It records who these are, and the
record never names one that the primary does not wait for: it adds a name after it has begun to wait for it and has seen it catch
up, and takes a name out before it stops waiting. So whoever is named, and the primary itself, has every acknowledged commit.
A new primary first records itself alone, before it acknowledges anything: from then on what the old one's replicas have is
not enough. And the old one can acknowledge nothing once any of those it waits for follows another.

Positions decide only who goes first among those who may. A wrong or old one costs nothing but commits that nobody was told of.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tenure.model import Token


@dataclass(frozen=True, slots=True)
class Record:
    """Who has every commit that was acknowledged: the ``primary``, and those whom it waits for before it acknowledges."""

    token: Token  # of the tenure in which it was written
    primary: str
    synchronous: frozenset[str]

    def has_all(self, member: str) -> bool:
        return member == self.primary or member in self.synchronous


@dataclass(frozen=True, slots=True)
class Report:
    """How far a member has come, in any unit that grows with every commit: the position in a log. ``beat`` differs from report to report."""

    position: int
    beat: str = ""


@dataclass(frozen=True, slots=True)
class Fit:
    """It may be the primary."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """It must not be the primary, and why."""

    why: str


def fitness(member: str, position: int, others: Mapping[str, Report], record: Record | None) -> Fit | Unfit:
    """Judge a member by its position, the reports of ``others`` that live, and the record; None: there was no primary yet.

    The most advanced of those who may be it goes first, and of equals the first by name. Who is dead should not be among
    ``others``: everybody would wait for it.
    """
    if record is not None and member == record.primary:
        return Fit()  # Nobody has been the primary since, so nobody can be ahead of it in what was acknowledged.
    if record is not None and not record.has_all(member):
        return Unfit(f"{member} may miss commits that {record.primary} has acknowledged")
    for name, report in sorted(others.items()):
        may_be = record is None or record.has_all(name)
        if name != member and may_be and (report.position, member) > (position, name):
            return Unfit(f"{name} is ahead of {member}: {report.position} and {position}")
    return Fit()

"""What is to be done, from what is in the folder and what is in the database. Decides, and does nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tenure.apps.migrate.steps import How, Step
from tenure.errors import ConfigError

State = Literal["begun", "applied"]


@dataclass(frozen=True, slots=True)
class Record:
    """What the database says of one step. Begun: its end was not recorded, so either it has no transaction, or has ended it inside."""

    number: int
    name: str
    checksum: str
    state: State
    token: int
    at: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What is left to be done, in this order."""

    pending: tuple[Step, ...]
    newer: tuple[Record, ...] = ()  # applied by a program that has more steps than this one


def plan(steps: Sequence[Step], records: Sequence[Record], *, in_office: bool, allow_newer: bool = False) -> Plan:
    """Return what is left to be done. Raises ConfigError, with all that is wrong in one line, if that cannot be said.

    What was begun is judged only in office: before that, its runner may be at it.
    """
    by_number = {record.number: record for record in records}
    wrong = [problem for step in steps if (problem := _problem(step, by_number.get(step.number), in_office=in_office))]
    newer = tuple(record for record in records if record.number > len(steps))
    if newer and not allow_newer:
        told = ", ".join(f"{record.number} {record.name}" for record in newer)
        wrong.append(f"{told}: applied, and not in the folder; is this an older version? --allow-newer goes on")
    pending = tuple(step for step in steps if _is_pending(by_number.get(step.number)))
    last = max((record.number for record in records if record.state == "applied"), default=0)
    wrong += [f"{step}: comes before {last}, which was applied" for step in pending if step.number < last]
    if wrong:
        raise ConfigError("steps", f"{len(wrong)} wrong", "; ".join(wrong))
    return Plan(pending, newer)


def _is_pending(record: Record | None) -> bool:
    return record is None or record.state == "begun"


def _problem(step: Step, record: Record | None, *, in_office: bool) -> str:
    if record is None:
        return ""
    if record.checksum != step.checksum:
        return f"{step}: was changed after it was {record.state} at {record.at}; put it back, and write another step"
    if in_office and record.state == "begun" and step.how is not How.REPEATABLE:
        settle = f"look at the database, then say --settle {step.number}=applied or --settle {step.number}=undone"
        why = "it ended its transaction inside" if step.how is How.TRANSACTION else "its runner died"
        return f"{step}: was begun at {record.at} and its end was not recorded, because {why}; {settle}"
    return ""

"""What is to be done, from what is in the folder and what is in the database. Decides, and does nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tenure.apps.migrate.steps import How, Step
from tenure.errors import ConfigError

State = Literal["begun", "applied"]


@dataclass(frozen=True, slots=True)
class Record:
    """What the database says of one step. Begun: by a step without a transaction, whose end was not recorded."""

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


def plan(steps: Sequence[Step], records: Sequence[Record], *, allow_newer: bool = False) -> Plan:
    """Return what is left to be done. Raises ConfigError, with all that is wrong in one line, if that cannot be said."""
    by_number = {record.number: record for record in records}
    wrong = [problem for step in steps if (problem := _problem(step, by_number.get(step.number)))]
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


def _problem(step: Step, record: Record | None) -> str:
    if record is None:
        return ""
    if record.checksum != step.checksum:
        return f"{step}: was changed after it was {record.state} at {record.at}; put it back, and write another step"
    if record.state == "begun" and step.how is not How.REPEATABLE:
        settle = f"look at the database, then say --settle {step.number}=applied or --settle {step.number}=undone"
        return f"{step}: was begun at {record.at} without a transaction, and nobody knows whether it ended; {settle}"
    return ""

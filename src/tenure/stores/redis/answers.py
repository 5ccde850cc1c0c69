"""What several servers answered, one by one, and the error if that is too little. No IO."""

from collections.abc import Callable, Sequence

from tenure.clients.redis.resp import Reply
from tenure.errors import OutcomeUnknown, Refused, StoreError, Unreachable
from tenure.stores.redis.scripts import left_s
from tenure.stores.redis.voting import majority_of

Answer = Reply | StoreError
Decided = Callable[[Sequence[Answer]], bool]


def too_few(size: int, answers: Sequence[Answer], address: str, operation: str) -> StoreError:
    """Return the error for a request that too few of ``size`` servers have answered."""
    errors = [answer for answer in answers if isinstance(answer, StoreError)]
    told = "; ".join(error.detail for error in errors)
    refused = [error for error in errors if isinstance(error, Refused)]
    if len(refused) > size - majority_of(size):
        return Refused(address, operation, told)
    detail = f"{len(errors)} of {size} servers did not answer: {told}"
    kind = OutcomeUnknown if any(isinstance(error, OutcomeUnknown) for error in errors) else Unreachable
    return kind(address, operation, detail)


def numbers(answers: Sequence[Answer]) -> list[int]:
    """Return the answers that are numbers."""
    return [answer for answer in answers if isinstance(answer, int)]


def lists(answers: Sequence[Answer]) -> list[list[Reply]]:
    """Return the answers that are lists."""
    return [answer for answer in answers if isinstance(answer, list)]


def offices_in(answers: Sequence[Answer]) -> list[list[tuple[bytes, float]]]:
    """Return for each office that LOOK told of who has it, or nothing, and for how many seconds, by each server that knows."""
    heard = lists(answers)
    offices = [[(told[at], told[at + 1]) for told in heard] for at in range(0, len(heard[0]) if heard else 0, 2)]
    return [[(held, left_s(ms)) for held, ms in each if isinstance(held, bytes)] for each in offices]

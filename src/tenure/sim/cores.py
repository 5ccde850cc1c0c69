"""Work on several cores, always with the same results in the same order."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


def on_cores(work: Callable[[Chunk], list[Result]], chunks: Iterable[Chunk], jobs: int) -> Iterator[Result]:
    """Yield what ``work`` makes of each chunk, in order; it may stop early. ``work`` must be one that can be pickled."""
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415  (one core does not need it)
    from multiprocessing import get_context  # noqa: PLC0415

    waiting = iter(chunks)
    # Spawned, not forked: a progress bar runs on a thread of its own, and forking beside threads is not safe.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_end_with_parent) as pool:
        pending: list[Future[list[Result]]] = []
        try:
            while True:
                # Three chunks a core ahead: enough to keep it busy, few enough to stop soon.
                ahead = 3 * jobs - len(pending)
                pending += [pool.submit(work, chunk) for chunk in islice(waiting, ahead)]
                if not pending:
                    return
                yield from pending.pop(0).result()
        finally:
            for future in pending:
                future.cancel()


def _end_with_parent() -> None:
    """Leave when the parent is gone, however it went: a worker that waits for work from nobody is an orphan."""
    import os  # noqa: PLC0415
    from multiprocessing import connection, parent_process  # noqa: PLC0415
    from threading import Thread  # noqa: PLC0415

    parent = parent_process()
    assert parent is not None, "only a worker calls this"

    def wait() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    Thread(target=wait, daemon=True).start()

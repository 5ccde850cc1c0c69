"""The offices that this sidecar holds now, for its own service and for clients; and its own candidates, ``--stand``.

Whether it holds one is a comparison with the clock, made anew for every question: a process that was frozen past its lease finds so at
its first answer, whatever it believed when it fell asleep.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tenure.election import Election
from tenure.errors import TenureError
from tenure.office.tenure import Tenure


class Offices:
    """Which tenures of which elections are held in this process."""

    def __init__(self) -> None:
        self._held: dict[str, list[Tenure]] = {}

    def held(self, election: str) -> Tenure | None:
        """Return the tenure that is valid at this instant and need not stop. Asks nobody."""
        for tenure in self._held.get(election, ()):
            if tenure.reason is None:
                return tenure
        return None

    @contextmanager
    def holding(self, tenure: Tenure) -> Iterator[None]:
        """Have it known while the block runs."""
        known = self._held.setdefault(tenure.election, [])
        known.append(tenure)
        try:
            yield
        finally:
            known.remove(tenure)
            if not known:
                self._held.pop(tenure.election, None)


class Stands:
    """The candidates that stand for the service beside this sidecar, from its start to its end."""

    def __init__(self, elections: Iterable[Election], offices: Offices) -> None:
        self.elections = {election.name: election for election in elections}
        self._offices = offices
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.troubles: dict[
            str, TenureError
        ] = {}  # Why one stands no longer, which nothing but a setting brings about.

    def start(self) -> None:
        """Stand for all of them."""
        for name, election in self.elections.items():
            self._tasks[name] = asyncio.create_task(self._stand(election), name=f"stand {name}")

    def stands(self, election: str) -> bool:
        """Whether a candidate of ours stands or leads there."""
        task = self._tasks.get(election)
        return task is not None and not task.done()

    async def end(self) -> None:
        """Resign everywhere, and return when all of it was released."""
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _stand(self, election: Election) -> None:
        try:
            await election.lead(self._body)
        except TenureError as error:
            self.troubles[election.name] = error

    async def _body(self, tenure: Tenure) -> None:
        with self._offices.holding(tenure):
            await asyncio.Event().wait()

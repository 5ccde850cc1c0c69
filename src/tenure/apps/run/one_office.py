"""One office: stand for it, say for whom we stand by, and run the command in every tenure."""

import math

import anyio

from tenure.apps.run.beside import beside
from tenure.apps.run.commands import Commands
from tenure.apps.run.exits import LOST, NOT_ELECTED
from tenure.apps.run.health import Fitness
from tenure.apps.run.job import Job
from tenure.apps.run.voice import Voice
from tenure.election import Election
from tenure.errors import StoreError, TenureOver
from tenure.model import Incumbent
from tenure.office.opened import OpenStore
from tenure.office.tenure import Tenure


class OneOffice:
    """One job in one election, on one event loop."""

    def __init__(self, job: Job, store: OpenStore, commands: Commands, fitness: Fitness, voice: Voice) -> None:
        self._job, self._commands, self._fitness, self._voice = job, commands, fitness, voice
        self._election = Election(store, job.election, timing=job.timing)
        self._term: Tenure | None = None
        self._trouble: StoreError | None = None  # the last that was heard while standing by
        commands.know(TENURE_HOLDER=str(self._election.holder))

    async def stand(self) -> int:
        """Stand until there is an exit code."""
        job = self._job
        with anyio.CancelScope() as self._patience:
            if job.wait_s is not None:
                # Not at all means: until the store has said who leads. It may be unable to.
                self._patience.deadline = anyio.current_time() + (job.wait_s or job.timing.ttl_ns / 1e9)
            return await self._fitness.stand(self._lead, self._withdraw)
        return await self._not_elected(self._election)

    def stop(self, number: int) -> bool:
        """Pass a signal to stop on to the command, whose end is the end. False: none runs."""
        return self._commands.runner.signal(number)

    async def _lead(self) -> int | None:
        """Stand until there is an exit code; None: we have withdrawn."""
        with anyio.CancelScope() as self._candidacy:
            async with beside(self._tell_who_leads(self._election)):
                try:
                    return await self._election.lead(self._body, once=self._job.once)
                except TenureOver:
                    return LOST
        return None

    def _withdraw(self) -> None:
        if self._term is not None:
            self._term.resign()
        else:
            self._candidacy.cancel()

    async def _body(self, term: Tenure) -> int:
        self._patience.deadline = math.inf
        self._term = term
        try:
            return await self._commands.run(term, 0, {})
        finally:
            self._term = None

    async def _tell_who_leads(self, election: Election) -> None:
        """Say for whom we stand by, whenever that changes. A store that cannot be asked is the office's to complain of."""
        told: Incumbent | None = None
        while True:
            other = None if self._in_office else await self._another(election)
            if not self._in_office:  # It may have begun while the store was asked.
                if other is not None and other != told:
                    told = other
                    text = f"standing by for {election.name}: {_name(other)} leads"
                    self._say("standing-by", text, leader=str(other.holder), token=other.token)
                if self._job.wait_s == 0 and (other or self._trouble):
                    self._patience.cancel()
            await anyio.sleep(election.look_every_s)

    @property
    def _in_office(self) -> bool:
        return self._term is not None

    async def _another(self, election: Election) -> Incumbent | None:
        """Return who leads, if that is another."""
        try:
            incumbent = await election.incumbent()
        except StoreError as error:
            self._trouble = error
            return None
        self._trouble = None
        return None if incumbent is None or incumbent.holder == election.holder else incumbent

    async def _not_elected(self, election: Election) -> int:
        other = None
        with anyio.move_on_after(self._job.timing.attempt_timeout_ns / 1e9):
            other = await self._another(election)
        if other is not None:
            why = f"{_name(other)} leads"
        elif self._trouble is not None:
            raise self._trouble
        else:
            why = "nobody leads" if self._fitness.is_fit else "the health check fails"
        wait = f" within {self._job.wait_s:g} s" if self._job.wait_s else ""
        leader = None if other is None else str(other.holder)
        self._voice.complain("not-elected", f"not elected in {election.name}{wait}: {why}", leader=leader)
        return NOT_ELECTED

    def _say(self, event: str, text: str, **fields: object) -> None:
        self._commands.say(event, text, election=self._job.election, **fields)


def _name(incumbent: Incumbent) -> str:
    return f"{incumbent.holder} (token {incumbent.token})"

"""Many offices: a fair share of the shards of a set, and a command for each that is ours.

Rules of this file
1. A command that is to make way for another member's is asked to end by TERM, and has its time while its office is renewed.
2. The first signal to stop does that to all of them, each once another member waits for its shard; the next is passed on as it is.
3. A command that fails and is not to be started again ends this supervisor with its exit code, the others having made way. One that
   succeeds has done its work: its shard stays here, idle.
"""

import signal

from tenure.apps.run.beside import beside
from tenure.apps.run.child import CannotStart
from tenure.apps.run.commands import Commands
from tenure.apps.run.health import Fitness
from tenure.apps.run.job import Job
from tenure.apps.shards import Shard, Shards
from tenure.apps.shards.terms import Terms
from tenure.office.opened import LoopStore


class ManyOffices:
    """One job for many shards, on one event loop."""

    def __init__(self, job: Job, sharding: Terms, store: LoopStore, commands: Commands, fitness: Fitness) -> None:
        self._job, self._sharding, self._store = job, sharding, store
        self._commands, self._fitness = commands, fitness
        self._shards = self._new_shards()
        self._exit_code = 0
        self._is_ill = False
        self._cannot_start: CannotStart | None = None

    def _new_shards(self) -> Shards:
        """Return a member that has not taken part yet."""
        how = self._sharding
        return Shards(
            self._store,
            self._job.election,
            how.count,
            member=how.member,
            weight=how.weight,
            max_shards=how.max_shards,
            drain=how.drain_s,
            return_within=how.return_within_s,
            timing=self._job.timing,
        )

    async def stand(self) -> int:
        """Take part until there is an exit code."""
        return await self._fitness.stand(self._take_part, self._withdraw)

    def stop(self, number: int) -> bool:
        """Hand everything over and end; the second time, pass the signal on. False: there is nothing to wait for."""
        if not self._commands.runner.is_busy:
            return False
        if number == signal.SIGHUP or self._commands.told_to_stop:
            return self._commands.runner.signal(number)
        self._shards.leave()
        return True

    async def _take_part(self) -> int | None:
        self._shards = self._new_shards()
        self._is_ill = False
        await self._shards.run(self._body)
        if self._cannot_start is not None:
            raise self._cannot_start
        return None if self._is_ill else self._exit_code

    def _withdraw(self) -> None:
        self._is_ill = True
        self._shards.leave()

    async def _body(self, shard: Shard) -> None:
        variables = {"TENURE_SHARD": str(shard.number), "TENURE_HOLDER": str(shard.term.holder)}
        try:
            async with beside(self._ask_to_end(shard)):
                code = await self._commands.run(shard.term, shard.number, variables, lambda: shard.is_leaving)
        except CannotStart as error:
            self._cannot_start = self._cannot_start or error
            self._shards.leave()
            return
        made_way = shard.is_leaving and not self._commands.told_to_stop  # Many a program takes TERM for a failure.
        if code and not made_way:
            self._exit_code = self._exit_code or code
            self._shards.leave()

    async def _ask_to_end(self, shard: Shard) -> None:
        await shard.leaving()
        election = shard.term.election
        self._commands.say("handing-over", f"handing over {election}: asking its command to end", election=election)
        self._commands.runner.signal(signal.SIGTERM, shard.term)

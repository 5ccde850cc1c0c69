"""Raft's leader as the one that works: three servers that stand themselves, and the term for a number.

It is the server of ``tenure.lab.raft``, with the settings of the paper: a leader that is cut off goes on believing (no check-quorum).
"""

from typing import Any, Final

from tenure.lab.approaches.cast import CANDIDATES, HEARTBEAT_NS, SINK, TTL_NS
from tenure.lab.approaches.node import Body, Steady, Tenure
from tenure.lab.raft.machine import Server
from tenure.lab.raft.messages import Became, Effect, Role
from tenure.lab.raft.node import RaftNode
from tenure.lab.raft.voting import Settings
from tenure.lab.world import World

SETTINGS: Final = Settings(timeout_min_ns=TTL_NS, timeout_max_ns=2 * TTL_NS, heartbeat_ns=HEARTBEAT_NS)


class RaftCandidate(RaftNode, Steady):
    """One server that works while it believes that it leads."""

    __slots__ = ("_body",)

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number, SETTINGS)
        self._body: Body

    def started(self) -> None:
        self._body = Body(self, lambda: self.server.role is Role.LEADER, self._on_refused)
        lot = self.world.chance.lot
        self.server = Server(self.number, len(CANDIDATES), self.settings, lot, self.restored(), self.clock())
        self.wake_at(self.server.wake_at)

    def received(self, source: int, message: Any) -> None:
        if source == SINK:
            self._body.hear(message)
        else:
            super().received(source, message)

    def _perform(self, effect: Effect) -> None:
        super()._perform(effect)
        if isinstance(effect, Became):
            if effect.role is Role.LEADER:
                self._body.lead(effect.term)
            else:
                self._body.stop(effect.why)

    def _on_refused(self, _: Tenure) -> None:
        """Stop, and ask again later: there is a later term, which Raft hears of by itself, or an older one came late."""
        self._body.stop("refused by the sink")
        self.after(HEARTBEAT_NS, self._lead_again)

    def _lead_again(self) -> None:
        if self.server.role is Role.LEADER and self._body.tenure is None:
            self._body.lead(self.server.term)

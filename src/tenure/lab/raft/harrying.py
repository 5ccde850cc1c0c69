"""Faults that strike where it hurts: servers that have just voted, and leaders that have just been elected.

Faults at other instants seldom find them. Of 2,000 seeds, with it and without: the mistake of the paper's figure 8 is seen in
6 and in 3, a vote that a restart forgets in 9 and in 4, one that is sent before it is written in 21 and in none.
"""

from dataclasses import dataclass

from tenure.lab.raft.messages import Became, Effect, Role, Send, Vote
from tenure.lab.raft.node import RaftNode
from tenure.sim.chance import Chance


@dataclass(slots=True)
class Harrier:
    """Strikes in ``share`` of all cases. ``scale_ns`` is the least election timeout."""

    chance: Chance
    share: float
    scale_ns: int

    def __call__(self, node: RaftNode, effects: list[Effect]) -> None:
        """Look at what a step is about to do."""
        if node.world.healthy:
            return
        for effect in effects:
            if isinstance(effect, Became):
                if effect.role is Role.LEADER and self.chance.hit(self.share):
                    self._haunt(node)
            elif isinstance(effect, Send) and isinstance(effect.message, Vote) and effect.message.granted:
                # Less often: a cluster whose voters all die elects nobody.
                if self.chance.hit(self.share / 4):
                    self._tear(node, len(effects))
                return

    def _tear(self, node: RaftNode, count: int) -> None:
        """Let a voter die in the middle of its step, or right after it, and come back soon enough to vote again."""
        node.torn_for_ns = self.chance.between(0, self.scale_ns >> self.chance.between(0, 6))
        after = self.chance.between(1, count)
        if after < count:
            node.torn_after = after
        else:
            node.world.at(node.world.now, node.tear)

    def _haunt(self, node: RaftNode) -> None:
        """Give a new leader a command, and let it be gone as soon as it has told some of the others."""
        world, chance = node.world, self.chance
        soon = world.now + chance.between(0, self.scale_ns >> chance.between(0, 4))
        node.torn_for_ns = chance.between(0, (4 * self.scale_ns) >> chance.between(0, 2))
        if chance.hit(0.5):
            world.at(soon, self._command, node, chance.between(1, world.plan.nodes - 1))
        elif chance.hit(0.8):
            world.at(soon, node.tear)
        else:
            world.at(soon, self._cut_off, node, node.torn_for_ns)

    @staticmethod
    def _command(node: RaftNode, torn_after: int) -> None:
        if node.up and not node.paused and node.server.role is Role.LEADER:
            node.torn_after = torn_after
            node.propose(f"y{node.server.term}{chr(ord('a') + node.number)}")

    @staticmethod
    def _cut_off(node: RaftNode, for_ns: int) -> None:
        node.world.at(node.world.now + for_ns, node.world.mend, node.world.cut([node.number]))

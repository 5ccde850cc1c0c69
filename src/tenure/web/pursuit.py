"""Which node to ask next, and after which pause, until the leader has answered. Pure.

What may be sent again:
- 421 and a 503 that says ``no-leader``: whatever it was. They come from ``LeaderASGI``, which handed it to nobody.
- what was never sent (no connection): whatever it was.
- what was sent and not answered: only what is repeatable, by its method or by an ``Idempotency-Key``. Otherwise nobody knows
  whether it was carried out, and the error is for the caller.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tenure.errors import ConfigError
from tenure.sinks.http.header import REFUSED
from tenure.sinks.http.stamp import origin_of
from tenure.web.leader import LEADER, NO_LEADER

MISDIRECTED: Final = 421
UNAVAILABLE: Final = 503
HOPS_MAX: Final = 8  # in a row, without a pause: nodes may name each other for a while
REPEATABLE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
_PAUSE_S: Final = (0.05, 1.0)  # the first, and the longest


class Fleet:
    """The nodes of a service, and which of them led last."""

    def __init__(self, nodes: Sequence[str], within_s: float) -> None:
        if isinstance(nodes, str) or not nodes:
            raise ConfigError("nodes", str(nodes)[:40], "must be a list of at least one URL")
        self.nodes = [_base(node) for node in nodes]
        self.within_s = within_s
        self.leader = self.nodes[0]
        self.is_tls = all(node.startswith("https://") for node in self.nodes)

    def after(self, node: str) -> str:
        """Return the node to ask if this one is of no help."""
        at = self.nodes.index(node) if node in self.nodes else -1
        return self.nodes[(at + 1) % len(self.nodes)]


class Pursuit:
    """One request on its way to the leader. Times are those of one clock, in seconds."""

    def __init__(self, fleet: Fleet, *, repeatable: bool, now_s: float) -> None:
        self._fleet, self._repeatable, self._give_up_at_s = fleet, repeatable, now_s + fleet.within_s
        self.target = fleet.leader
        self._hops, self._pause_s = 0, _PAUSE_S[0]

    def answered(self, status: int, headers: Mapping[str, str], now_s: float) -> float | None:
        """Return after which pause to ask ``target`` next, or None if this answer is the one to return."""
        leader = self._named(headers.get(LEADER))
        if status == MISDIRECTED and leader is not None:
            self._hops += 1
            if leader != self.target and self._hops <= HOPS_MAX:
                self.target = leader
                return 0.0 if now_s < self._give_up_at_s else None
            return self._elsewhere(now_s)
        if status == UNAVAILABLE and headers.get(REFUSED) == NO_LEADER:
            return self._elsewhere(now_s)
        self._fleet.leader = self.target
        return None

    def failed(self, now_s: float, *, sent: bool) -> float | None:
        """Return after which pause to ask ``target`` next, or None if the error is for the caller."""
        return None if sent and not self._repeatable else self._elsewhere(now_s)

    def _elsewhere(self, now_s: float) -> float | None:
        self._hops = 0
        self.target = self._fleet.after(self.target)
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, _PAUSE_S[1])
        return pause_s if now_s + pause_s < self._give_up_at_s else None

    def _named(self, address: str | None) -> str | None:
        try:
            base = None if address is None else _base(address)
        except ConfigError:
            return None
        # What was to be encrypted is not sent in the clear because a node says so.
        return None if base is None or (self._fleet.is_tls and not base.startswith("https://")) else base


def _base(url: str) -> str:
    origin_of(url)
    if "?" in url or "#" in url or "@" in url:
        raise ConfigError("node", "(hidden)", "must be an http or https URL without a user, a query or a fragment")
    return url.rstrip("/")

"""The order in which a sink checks, begins and commits, as talks: one text for drivers that block and that await.

Rules of this file
1. A token that is known to be sealed is checked together with the commit, and not before: a leader that is frozen inside a
   transaction keeps nobody from sealing. Any other token is checked first, as it may have to raise the fence, and must do so
   in the transaction of the write.
2. What a connection presents to triggers is that of the transaction it is in. It belongs to the sink, so nobody else finds it.
"""

from dataclasses import dataclass
from typing import Generic

from tenure.errors import ConfigError, StaleToken, TenureError, UnverifiedToken
from tenure.model import Token
from tenure.sinks.sql.dialect import Dialect, Opening, Unready
from tenure.sinks.sql.talk import Ask, Raw, Talk, Trouble

CONNECTIONS_MAX = 10
WAIT_S, IDLE_S = 2.0, 10.0
_BUSY_S = 10
NO_ANSWER = "no answer in time"
_TRIES_MAX = 8  # Each that fails is one of another leader's.


class Kept(Generic[Raw]):
    """A connection of a sink, whose session is its own or shared through a pooler; what it presents to triggers; when it was last used;
    and whether anything may be open on it.

    The last is kept here, since asyncmy does not know it: it overlooks that a transaction has ended.
    """

    __slots__ = ("begins_by", "begins_so", "ends_by", "is_clean", "is_own", "presented", "raw", "used_at_s")

    def __init__(self, raw: Raw, *, is_own: bool) -> None:
        self.raw, self.is_own = raw, is_own
        self.is_clean = True
        self.used_at_s = 0.0
        self.presented: tuple[str, int] = ("", 0)
        # How the last transaction began, by what, and by what it was to be committed: those of the next one are mostly the same.
        self.begins_so: tuple[str, int, str] | None = None
        self.begins_by: list[Ask] = []
        self.ends_by: Ask | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a seal waits for older transactions, and how long a transaction may be idle."""

    wait_ms: int
    idle_ms: int

    @property
    def seal_s(self) -> float:
        """How long a seal may take in all: as long as it may wait, and as long as a server that is there may be busy."""
        return 4 * self.wait_ms / 1000 + _BUSY_S

    @property
    def answer_s(self) -> float:
        """How long may pass until something is answered that waits for nobody else. Then the server is taken for gone."""
        return _BUSY_S

    @classmethod
    def of(cls, connections_max: int, wait_s: float, idle_s: float) -> "Limits":
        """Return them in milliseconds. Raises ConfigError for what cannot be a limit."""
        for what, value in (("connections_max", connections_max), ("wait_s", wait_s), ("idle_s", idle_s)):
            if not value > 0:
                raise ConfigError(what, value, "must be more than 0")
        return cls(max(int(wait_s * 1000), 1), max(int(idle_s * 1000), 1))


def check_open(name: str, *, is_closed: bool) -> None:
    """Raise ConfigError for a sink that was closed."""
    if is_closed:
        raise ConfigError("sink", name, "must not be used after it was closed")


def ended_too_early() -> ConfigError:
    """Return what whoever ends a transaction is told, if something that it has begun there has not ended."""
    rule = "must last until all that was begun inside has ended: wait for it, and read or close what it returns. It is rolled back"
    return ConfigError("transaction", "ended too early", rule)


def once_at_a_time() -> ConfigError:
    """Return what whoever enters a transaction within itself is told: both blocks would be given one connection back."""
    return ConfigError(
        "transaction", "entered inside itself", "must be made anew for each block: sink.transaction(term)"
    )


class Flow:
    """What a sink says, and what it knows of the fences."""

    def __init__(self, dialect: Dialect, limits: Limits) -> None:
        self.dialect, self.limits = dialect, limits
        # By fence: the token that it is known to have stood at. Such a token is checked with the commit, and not before.
        self.sealed: dict[str, Token] = {}

    def opened(self, kept: Kept[Raw]) -> Talk[None]:
        """Tell a new connection what it must know."""
        yield from self.dialect.settings(self.limits.idle_ms, is_own=kept.is_own)

    def seal(self, fence: str, token: Token, *, may_raise: bool) -> Talk[None]:
        try:
            yield from self.dialect.seal(fence, token, self.limits.wait_ms, may_raise=may_raise)
        except Unready:
            yield from self.dialect.set_up()
            yield from self.dialect.seal(fence, token, self.limits.wait_ms, may_raise=may_raise)
        self.sealed[fence] = token

    def highest(self, fence: str) -> Talk[int]:
        try:
            return (yield from self.dialect.highest(fence))
        except Unready:
            return 0

    def beginning(self, kept: Kept[Raw], so: tuple[str, Token, str]) -> list[Ask]:
        """Return what opens a transaction on this connection, for a fence, a token and a level; it then knows how to commit it."""
        if kept.begins_so != so:
            fence, token, isolation = so
            opening = Opening(isolation, fence, token, kept.presented, self.limits.idle_ms, kept.is_own)
            kept.begins_by, kept.ends_by = self.dialect.begin(opening), self.dialect.end(fence, token)
            # The next one begins otherwise, where what was presented stays.
            kept.begins_so = so if kept.presented == (fence, token) else None
        return kept.begins_by

    def begin(
        self, kept: Kept[Raw], fence: str, token: Token, isolation: str, *, may_raise: bool
    ) -> Talk[UnverifiedToken | None]:
        """Open a transaction that counts under ``token``. Returns the refusal of a token that may not raise the fence."""
        begin = self.beginning(kept, (fence, token, isolation))
        kept.presented = fence, token
        for attempt in range(_TRIES_MAX):
            for ask in begin:  # noqa: UP028  (a list takes no answers)
                yield ask
            if self.sealed.get(fence) == token:
                return None
            try:
                yield from self.dialect.admit(fence, token, may_raise=may_raise)
            except Unready:
                yield from self.roll_back()
                yield from self.dialect.set_up()
            except UnverifiedToken as unverified:
                yield from self.roll_back()
                return unverified
            except Trouble as trouble:  # Somebody else raised the fence at the same time. Nothing was written here yet.
                if not self.dialect.is_conflict(trouble) or attempt == _TRIES_MAX - 1:
                    raise
                yield from self.roll_back()
            else:
                return None
        raise AssertionError("the last try returns or raises")

    def finish(self, fence: str, token: Token, failed: Trouble | None) -> Talk[None]:
        """Check, and commit, if that is not done by one question, or say what it means that this failed."""
        if failed is not None and failed.is_callers:
            raise failed
        try:
            yield from self.dialect.finish(fence, token, failed)
        except UnverifiedToken:
            self.sealed.pop(fence, None)  # The server has lost the seal. The next transaction raises the fence again.
            raise
        except Unready as gone:
            self.sealed.pop(fence, None)
            yield from self.roll_back()
            try:
                yield from self.dialect.highest(fence)
            except Unready:  # Even the table of fences.
                raise UnverifiedToken(token, 0) from gone
            # It is there, so what is missing is something that the caller's own triggers want, or ``finish`` where older code has
            # set up: the driver's words say which.
            trouble = gone.__cause__ or gone
            raise trouble from trouble.__cause__
        self.sealed[fence] = token

    def explain(self, trouble: Trouble, fence: str, token: Token) -> Talk[TenureError | None]:
        """Return what the trouble of a transaction comes down to, if that is a refusal; the transaction is rolled back."""
        refusal = self.dialect.refusal(trouble)
        if isinstance(refusal, UnverifiedToken):
            self.sealed.pop(fence, None)
        if refusal is not None or not self.dialect.is_conflict(trouble):
            return refusal
        yield from self.roll_back()
        highest = yield from self.highest(fence)
        return StaleToken(token, highest) if highest > token else None

    def roll_back(self) -> Talk[None]:
        """Roll back whatever is open."""
        yield Ask("ROLLBACK", turn="end")

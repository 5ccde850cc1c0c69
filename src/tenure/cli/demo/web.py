"""``tenure demo --web``: the same run on a page, as it happens. Nothing is made up for it: the page is fed with what the processes say.

Who holds the office is told as the store has it: whoever was granted it last, until its lease is over. So a leader that is frozen is
seen to lose its office while it still believes to have it, which is what the demo is about.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tenure.cli.demo.happening import Happening, What
from tenure.cli.demo.judge import UNFENCED_ACT, Verdict, is_stale
from tenure.cli.demo.show import Show
from tenure.clock import BootClock
from tenure.errors import Reason
from tenure.facts.kinds import Elected, Fact, Left, Overstayed, RefusedStale, Renewed, Stood, Withdrew
from tenure.facts.kinds import What as FactWhat
from tenure.model import Bid, Holder, Incumbent, Token
from tenure.plan import Budget
from tenure.serve.board import Board
from tenure.serve.board_json import iso
from tenure.serve.board_showing import Showing
from tenure.stores.base import ElectionStatus
from tenure.timing import Timing

WAIT_S: Final = 30.0  # How long the demo waits for somebody to open the page.
_EVERY_S: Final = 0.2
_ADDRESS: Final = "sqlite:// in a folder of the demo"
_ELECTIONS: Final = {1: "demo/invoices", 2: "demo/invoices", UNFENCED_ACT: "demo/invoices-without-fence"}
_STRUCK: Final = {
    What.FROZEN: "{who} is frozen by SIGSTOP, about to pay invoice {invoice} with token {token}.",
    What.WOKEN: "{who} wakes up, and knows nothing of it.",
    What.KILLED: "{who} is killed by SIGKILL, about to pay invoice {invoice} with token {token}.",
}

# What the processes say that is a fact of an election, too.
_FACTS: Final[Mapping[What, Callable[[Happening], FactWhat]]] = {
    What.STARTED: lambda _: Stood(0),
    What.ELECTED: lambda found: Elected(Token(found.token), 0),
    What.OVERSTAYED: lambda found: Overstayed(Token(found.token), found.more["late_by_ns"]),
    What.LEFT: lambda found: Left(Token(found.token), Reason(found.more["reason"])),
    What.REJECTED: lambda found: RefusedStale("The ledger", found.token, found.more["highest"]),
}


@dataclass(slots=True)
class _Office:
    """One election as its store has it, put together from what its candidates say."""

    name: str
    leader: Incumbent | None = None
    granted_ns: int = 0
    until_ns: int = 0
    waiting: dict[str, Holder] = field(default_factory=dict)

    def status(self, now_ns: int) -> ElectionStatus:
        leader = self.leader if now_ns < self.until_ns else None
        held_ns, left_ns = (now_ns - self.granted_ns, self.until_ns - now_ns) if leader else (None, None)
        standbys = tuple(self.waiting.values())
        return ElectionStatus(self.name, leader, held_ns, left_ns, resign_asked=False, standbys=standbys)


class Watched:
    """A show that is also on the page."""

    def __init__(self, show: Show, showing: Showing, timing: Timing) -> None:
        self._show, self._showing, self._timing = show, showing, timing
        self._clock = BootClock()
        self._ahead_s = time.time() - self._clock.now() / 1e9
        self._lock = threading.Lock()
        self._history: list[Happening] = []
        self._offices: dict[str, _Office] = {}
        self._holders: dict[tuple[str, str], Holder] = {}
        self._sent_ns: dict[Holder, int] = {}
        self._ended = threading.Event()
        self.farewell = "The demo has ended before its end. This is how it stood."

    def happened(self, happening: Happening) -> None:
        self._history.append(happening)
        with self._lock:
            self._tell(happening)
        self._show.happened(happening)

    def waiting(self, meaning: str) -> None:
        self._show.waiting(meaning)

    def report(self, verdict: Verdict) -> None:
        held = "The fence held. Without it the same program corrupted its ledger."
        told = held if not verdict.problems else f"It failed: {verdict.problems[0]}."
        self.farewell = f"The demo is over. {told}"
        self._show.report(verdict)

    def look(self) -> None:
        """Show the board every office, again and again. Runs on a thread of its own, until ``end``."""
        while not self._ended.wait(_EVERY_S):
            self.picture()

    def end(self) -> None:
        self._ended.set()

    def picture(self) -> None:
        """Show the board every office as it is now."""
        with self._lock:
            now_ns = self._clock.now()
            found = [office.status(now_ns) for office in self._offices.values()]
        self._showing.feed(lambda board: board.saw(found, self._at_s(now_ns)))

    def _at_s(self, at_ns: int) -> float:
        return at_ns / 1e9 + self._ahead_s

    def _tell(self, happening: Happening) -> None:
        who, token, at_s = happening.who, happening.token, self._at_s(happening.at_ns)
        office = self._office(happening)
        if happening.what is What.STARTED:
            self._holders[office.name, who] = Holder(who, happening.more["pid"], "demo")
        holder = self._holders.get((office.name, who))
        if holder is None:  # The ledger.
            return
        if happening.what in _FACTS:
            self._fact(happening, _FACTS[happening.what](happening))
        if happening.what in _STRUCK:
            known = {"who": who, "invoice": happening.invoice, "token": token}
            self._note(office, at_s, _STRUCK[happening.what].format(**known))
        match happening.what:
            case What.WAITS:
                office.waiting[who] = holder
            case What.GRANTED | What.RENEWED:
                self._prolonged(office, happening, holder)
            case What.ACCEPTED if is_stale(happening, self._history):
                self._note(office, at_s, f"The ledger took a stale write of {who}, with token {token}: it is corrupt.")
            case What.KILLED:
                self._showing.feed(lambda board: board.died(office.name, token, at_s, "killed"))
            case What.ENDED:
                self._gone(office, who, happening.at_ns)
            case _:
                pass

    def _gone(self, office: _Office, who: str, at_ns: int) -> None:
        office.waiting.pop(who, None)
        holder = self._holders.pop((office.name, who))
        self._showing.hear(Fact(Withdrew(), at_ns, self._at_s(at_ns), _ADDRESS, office.name, holder))

    def _office(self, happening: Happening) -> _Office:
        name = _ELECTIONS[happening.act]
        if name not in self._offices:
            for before in self._offices.values():  # The acts before are over, and their processes gone.
                self._close(before, happening.at_ns)
            self._offices[name] = _Office(name)
        return self._offices[name]

    def _close(self, office: _Office, at_ns: int) -> None:
        office.until_ns = 0
        if office.leader is not None:
            over = Left(office.leader.token, Reason.RESIGNED)
            self._showing.hear(Fact(over, at_ns, self._at_s(at_ns), _ADDRESS, office.name, office.leader.holder))
        for who in [who for name, who in self._holders if name == office.name]:
            self._gone(office, who, at_ns)

    def _prolonged(self, office: _Office, happening: Happening, holder: Holder) -> None:
        """A claim or a renewal was granted: the store counts a full ttl from now, and the holder from when it asked."""
        before_ns = self._sent_ns.get(holder)
        self._sent_ns[holder] = happening.more["sent_ns"]
        if happening.what is What.GRANTED:
            office.leader = Incumbent(office.name, holder, Token(happening.token))
            office.granted_ns = happening.at_ns
            office.waiting.pop(happening.who, None)
        elif before_ns is not None:
            margin_ns = before_ns + self._timing.valid_for_ns - happening.at_ns
            bid = Bid(office.name, holder, 1, self._timing.ttl_ns)
            self._fact(happening, Renewed((bid,), margin_ns, happening.at_ns - happening.more["sent_ns"]))
        office.until_ns = happening.at_ns + self._timing.ttl_ns

    def _fact(self, happening: Happening, what: FactWhat) -> None:
        name = _ELECTIONS[happening.act]
        holder = self._holders[name, happening.who]
        self._showing.hear(Fact(what, happening.at_ns, self._at_s(happening.at_ns), _ADDRESS, name, holder))

    def _note(self, office: _Office, at_s: float, text: str) -> None:
        self._showing.feed(lambda board: board.noted(office.name, at_s, text))
        self._showing.say(office.name, iso(at_s) or "", text)


@contextmanager
def watched(show: Show, ttl_s: float) -> Iterator[tuple[Watched, str, Showing]]:
    """Serve the page while the block runs; gives a show to play to, the page's URL, and who looks at it."""
    timing = Timing.of(ttl=ttl_s)
    # A leader of the demo has nothing to load, and nobody looks for it.
    budget = Budget.of(timing, elect_s=0.25 * ttl_s, load_s=0, warm_s=0, discover_s=0)
    showing = Showing(Board(_ADDRESS, None, budget, instance="tenure demo", rto_s=1.5 * ttl_s))
    seen = Watched(show, showing, timing)
    looking = threading.Thread(target=seen.look, name="tenure-demo-page", daemon=True)
    seen.picture()
    with showing.served(lambda: seen.farewell) as url:
        looking.start()
        try:
            yield seen, f"{url}/#span=60", showing
        finally:
            seen.end()
            looking.join()

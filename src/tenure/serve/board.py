"""What the page shows, as a value that is fed: no IO, and time comes in with what is told.

    board = Board(store.address, store.traits, Budget.of(timing, store.traits), instance="web-1")
    board.saw(await store.elections(), time.time())   # every second or so: all elections of the store
    board.heard(fact)                                 # every fact of this process
    board.store_is(ok, detail)                        # whether the store answers
    board.recorded(election, records)                 # what the history has of it
    board.as_json()                                   # GET /v1/board
    board.changes()                                   # event: board, to everybody, several times a second at most

``changes()`` is what differs from the last time that it was asked, for all listeners alike: only rows that changed, and of these
only what did. It says from which revision to which, so whoever missed one notices, and gets the whole board again.

Not safe to use from several threads: feed and read it on one.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tenure.apps.history.told import TenureRecord
from tenure.facts.kinds import (
    Elected,
    Fact,
    Left,
    Overstayed,
    RefusedStale,
    RefusedUnverified,
    Renewed,
    Stood,
    StoreBack,
    StoreLost,
    Suspended,
    Withdrew,
)
from tenure.plan import RTO_S, Budget
from tenure.serve.board_json import Past, iso, moving, shown_row, since_s
from tenure.serve.board_judging import REFUSED_WITHIN_S, SEVERITY, State, headline, judge, majority
from tenure.serve.board_rows import Mark, Row
from tenure.serve.board_timeline import Stint
from tenure.stores.base import ElectionStatus, Traits

FAILOVERS_KEPT: Final = 20
_REFUSED_KEPT: Final = 1000  # of elections that cannot be told apart: more are no news
# What a row that is odd in a way that nobody has thought of may raise: records, names and addresses were written by others.
_ODD: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_WHY_CHARS: Final = 200


class Board:
    """Every election of one store: who leads, what is wrong, and what has happened."""

    def __init__(  # noqa: PLR0913  (what it shows of where it runs, each by name)
        self,
        address: str,
        traits: Traits | None,
        budget: Budget,
        *,
        instance: str = "",
        read_only: bool = True,
        rto_s: float = RTO_S,
    ) -> None:
        """``address`` is the store's, without secrets; ``read_only`` says that nobody can resign through this page."""
        self.address, self.instance, self.read_only = address, instance, read_only
        self._identity = ""  # of the store; empty: not known
        self._traits, self._budget, self._rto_s = traits, budget, rto_s
        self._rows: dict[str, Row] = {}
        self._at_s = 0.0
        self._store: dict[str, Any] = {"ok": True, "detail": "", "since": None, "members": None}
        self._refused_elsewhere = 0
        self._refused_elsewhere_s: deque[float] = deque(maxlen=_REFUSED_KEPT)
        self._revision = 0
        self._looked = False  # The store has been seen at all.
        self._since_s: dict[str, tuple[State, float | None]] = {}
        # What is shown of each row is put together when something was told of it, and not whenever somebody looks.
        self._touched: set[str] = set()
        self._shown: dict[str, dict[str, Any]] = {}
        self._pasts: dict[str, Past] = {}
        self._told: dict[str, dict[str, Any]] = {}
        self._told_head: dict[str, Any] = {}
        # What somebody has read between two changes. It may be what it was by the next, and then no difference would say so.
        self._read: set[str] = set()

    # What it is fed with

    def opened(self, address: str, traits: Traits, budget: Budget, identity: str = "") -> None:
        """Take in what the store is, which is not known before it was reached for the first time."""
        self.address, self._traits, self._budget, self._identity = address, traits, budget, identity

    def saw(self, statuses: Iterable[ElectionStatus], at_s: float) -> None:
        """Take in every election that the store has, as it was at ``at_s``."""
        self._now_is(at_s)
        self._looked = True
        found = set()
        for status in statuses:
            found.add(status.election)
            if self._rows.setdefault(status.election, Row(status.election)).saw(status, at_s):
                self._touched.add(status.election)
        for row in [row for name, row in self._rows.items() if name not in found]:
            if row.listed:
                row.vanished(at_s)
                self._touched.add(row.election)
            if row.here == "none":  # What somebody here stands for stays: the store will have it soon.
                self._forget(row.election)

    def heard(self, fact: Fact) -> None:
        """Take in what has happened in this process. Facts of another store are none of this board's."""
        if fact.store and fact.store != self.address:
            return
        self._now_is(fact.at_s)
        match fact.what:
            case Renewed(bids, margin_ns, _):
                for bid in bids:
                    self._row(bid.election).renewed(bid.holder, margin_ns / 1e9)
            case RefusedStale() | RefusedUnverified():
                self._refused(fact, fact.what)
            case StoreLost() | StoreBack():
                self.store_is(isinstance(fact.what, StoreBack), getattr(fact.what, "detail", ""), at_s=fact.at_s)
            case Suspended(for_ns):
                self._slept(fact.at_s, for_ns / 1e9)
            case _ if fact.election:
                self._heard_of(self._row(fact.election), fact)

    def _slept(self, at_s: float, for_s: float) -> None:
        for row in self._rows.values():
            if row.here != "none":
                self._row(row.election).marks.append(Mark(at_s, "noted", f"This machine slept for {for_s:.1f} s."))

    def _heard_of(self, row: Row, fact: Fact) -> None:
        match fact.what:
            case Stood() if fact.holder is not None:
                row.standing.add(fact.holder)
            case Withdrew() if fact.holder is not None:
                row.standing.discard(fact.holder)
                row.forget_body(fact.holder)
            case Elected(token):
                row.elected(fact, int(token))
            case Overstayed(token):
                row.overstaying.add(int(token))
            case Left(token, reason):
                row.left(fact, int(token), reason.value)

    def noted(self, election: str, at_s: float, text: str) -> None:
        """Mark a moment on the timeline of an election."""
        self._now_is(at_s)
        self._row(election).marks.append(Mark(at_s, "noted", text))

    def died(self, election: str, token: int, at_s: float, reason: str) -> None:
        """Take in that a leader was ended which can tell nobody: whoever ended it says so."""
        self._now_is(at_s)
        self._row(election).died(token, at_s, reason)

    def store_is(
        self, ok: bool, detail: str = "", *, at_s: float | None = None, members: Mapping[str, bool] | None = None
    ) -> None:
        """Take in whether the store answers; ``members`` are its nodes, where they are known, and whether each is up."""
        at_s = self._at_s if at_s is None else at_s
        self._now_is(at_s)
        since = at_s if ok != self._store["ok"] or self._store["since"] is None else self._store["since"]
        shown = None if members is None else [{"name": name, "ok": up} for name, up in members.items()]
        self._store = {"ok": ok, "detail": detail, "since": since, "members": shown or self._store["members"]}

    def recorded(self, election: str, records: Iterable[TenureRecord]) -> None:
        """Take in what is on record of an election, as ``tenure.apps.history.read_history`` returns it."""
        self._row(election).recorded([Stint.of(record) for record in records])

    def _refused(self, fact: Fact, what: RefusedStale | RefusedUnverified) -> None:
        name = fact.election or self._election_of(what.fence)
        if name is None:  # Then it is plain whose they are if only one election has had both tokens.
            owners = [row.election for row in self._rows.values() if {what.token, what.highest} <= _tokens(row)]
            name = owners[0] if len(owners) == 1 else ""
        if not name:
            self._refused_elsewhere += 1
            self._refused_elsewhere_s.append(fact.at_s)
            return
        text = f"{what.sink} refused a write with token {what.token}: it has seen {what.highest}."
        self._row(name).refused_write(fact.at_s, what.token, text)

    def _election_of(self, fence: str) -> str | None:
        """Return the election of a fence; "": of ours, and not one that is shown; None: it does not say.

        A fence is the identity of a store, a slash and the election, and both have slashes of their own: of ``etcd/7f/a/b`` only who
        knows the store can tell whether ``b`` was meant or ``a/b``. One that was written by hand may say something else, or nothing.
        """
        if self._identity:
            name = fence.removeprefix(f"{self._identity}/")
            return None if name == fence else name if name in self._rows else ""
        parts = fence.split("/")
        return next((name for at in range(1, len(parts)) if (name := "/".join(parts[at:])) in self._rows), None)

    def _row(self, election: str) -> Row:
        self._touched.add(election)
        return self._rows.setdefault(election, Row(election))

    def _forget(self, election: str) -> None:
        for known in (self._rows, self._shown, self._pasts, self._since_s):
            known.pop(election, None)
        self._touched.discard(election)

    def _now_is(self, at_s: float) -> None:
        self._at_s = max(self._at_s, at_s)  # Facts and pictures come by different ways.

    # What it shows

    @property
    def best_effort(self) -> str:
        """Why the store promises less than others; empty: it does not."""
        return "" if self._traits is None else self._traits.best_effort

    def as_json(self) -> dict[str, Any]:
        """Return all of it, what is wrong first."""
        self._refresh()
        names = self._shown.keys() | self._told.keys()
        self._read |= {name for name in names if self._shown.get(name) is not self._told.get(name)}
        head = self._head()
        if head != self._told_head:
            self._told_head = {}
        ordered = sorted(self._shown.values(), key=lambda row: (SEVERITY[State(row["state"])], row["election"]))
        return {
            **head,
            "revision": self._revision,
            "at": iso(self._at_s),
            "instance": self.instance,
            "read_only": self.read_only,
            "elections": [{**row, **moving(self._rows[row["election"]], self._at_s)} for row in ordered],
        }

    def changes(self) -> dict[str, Any]:
        """Return what has changed since this was last asked: parts of the head, parts of rows, and who is gone."""
        self._refresh()
        fresh = [name for name, row in self._shown.items() if self._told.get(name) is not row]
        changed = [found for name in fresh if (found := self._difference(name)) is not None]
        gone = [name for name in (self._told.keys() | self._read) if name not in self._shown]
        head = self._head()
        news = {name: value for name, value in head.items() if self._told_head.get(name) != value}
        told = {"since": self._revision, "at": iso(self._at_s), **news}
        if changed or gone or news:
            self._revision += 1
        self._told, self._told_head = dict(self._shown), head
        self._read.clear()
        return {**told, "revision": self._revision, "elections": changed, "gone": gone}

    def _refresh(self) -> None:
        late = {name for name, row in self._shown.items() if row["state"] != State.OK}  # Time alone may change these.
        for name in sorted(self._touched | late):
            shown = self._show_if_possible(self._rows[name])
            if shown is None:
                self._shown.pop(name, None)
            elif shown != self._shown.get(name):
                self._shown[name] = shown
        self._touched.clear()

    def _difference(self, name: str) -> dict[str, Any] | None:
        row, known, added = self._shown[name], self._told.get(name), self._rows[name].margins_added
        self._rows[name].margins_added = 0
        if known is None or name in self._read:
            return {**row, **moving(self._rows[name], self._at_s)}
        news = {key: value for key, value in row.items() if known[key] != value}
        if not news:
            return None
        margins = news.pop("margins", None)
        if margins is not None:
            # The newest alone: sixty of each of 500 elections every two seconds would be 200 kB.
            whole = added >= len(margins)
            news |= {"margins": margins} if whole else {"margins_added": margins[len(margins) - added :]}
        return {"election": name, **news, **moving(self._rows[name], self._at_s)}

    def _show_if_possible(self, row: Row) -> dict[str, Any] | None:
        """Return what is shown of an election: without its past, if that is odd; None: nothing can be. It keeps no other from being shown."""
        for _ in range(2):
            try:
                return self._show(row)
            except _ODD as error:
                row.forget_past(self._at_s, repr(error)[:_WHY_CHARS])
                self._pasts.pop(row.election, None)
        return None

    def _show(self, row: Row) -> dict[str, Any]:
        verdict = judge(row, self._at_s, self._budget)
        known = self._since_s.get(row.election)
        if known is None or known[0] is not verdict.state:
            self._since_s[row.election] = known = (verdict.state, since_s(row, verdict.state, self._at_s))
        past = self._pasts.setdefault(row.election, Past())
        past.look(row)
        return shown_row(row, verdict, known[1], past)

    def _head(self) -> dict[str, Any]:
        states = [State(row["state"]) for row in self._shown.values()]
        lately = sum(at_s >= self._at_s - REFUSED_WITHIN_S for at_s in self._refused_elsewhere_s)
        found = headline(states, store_ok=self._store["ok"], nodes=self._nodes(), refused_elsewhere=lately)
        text = (
            found.text if self._looked or states or not self._store["ok"] else "Looking at the store for the first time"
        )
        members = self._store["members"]
        return {
            "headline": {"level": found.level, "text": text, "also": list(found.also)},
            "refused_elsewhere": self._refused_elsewhere,
            "store": {
                "address": self.address,
                "ok": self._store["ok"],
                "detail": self._store["detail"],
                "since": iso(self._store["since"]),
                "best_effort": self.best_effort,
                "members": members,
                "quorum": self._quorum(),
            },
            "plan": self._plan(),
        }

    def _quorum(self) -> int | None:
        """How many nodes decide; None: that is not known, as it is if fewer are up of those that the URL names, and the store answers."""
        nodes = self._nodes()
        if nodes is None or (self._store["ok"] and nodes[0] < majority(nodes[1])):
            return None
        return majority(nodes[1])

    def _nodes(self) -> tuple[int, int] | None:
        members = self._store["members"]
        return None if members is None else (sum(one["ok"] for one in members), len(members))

    def _plan(self) -> dict[str, Any]:
        budget = self._budget
        measured = sorted((one for past in self._pasts.values() for one in past.failovers), key=lambda one: one["at"])
        return {
            "detect_s": budget.detect_s,
            "elect_s": budget.elect_s,
            "load_s": budget.load_s,
            "warm_s": budget.warm_s,
            "discover_s": budget.discover_s,
            "total_s": budget.total_s,
            "rto_s": self._rto_s,
            "measured": measured[-FAILOVERS_KEPT:],
        }


def _tokens(row: Row) -> set[int]:
    return {stint.token for stint in row.timeline}

"""Spans of facts: a try to take office, from standing or waking to its end; and a tenure, from taking office to leaving it.

Both are made when they end, with the time of their beginning: until then the book knows all that there is to say. They are
of no trace that is under way, since whoever is served while a process leads did not make it lead.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tenure.errors import Reason
from tenure.facts import kinds as what
from tenure.facts.kinds import Fact, as_json
from tenure.metrics.book import Book
from tenure.metrics.elections import Candidate
from tenure.model import Holder

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext, Tracer

Key = tuple[str, str, Holder | None]


@dataclass(slots=True)
class _Running:
    """What a tenure has met that is not in the book."""

    elected_by: "SpanContext | None"
    events: list[Fact] = field(default_factory=list)


class Spans:
    """Makes spans. Told of each fact before the book is."""

    def __init__(self, tracer: "Tracer") -> None:
        self._tracer = tracer
        self._running: dict[Key, _Running] = {}

    def hear(self, fact: Fact, book: Book) -> None:
        """Take note of a fact, and make the span that ends with it."""
        one = book.elections.get(fact.store, fact.election)
        candidate = one.candidates.get(fact.holder) if one is not None and fact.holder is not None else None
        key = fact.store, fact.election, fact.holder
        match fact.what:
            case what.Elected():
                tried = self._tried(fact, candidate, "elected", {"tenure.token": fact.what.token})
                self._running[key] = _Running(tried)
            case what.Waiting():
                self._tried(fact, candidate, "waiting", {})
            case what.Ending() | what.Overstayed():
                if key in self._running:
                    self._running[key].events.append(fact)
            case what.Left():
                self._led(fact, fact.what, candidate, self._running.pop(key, None))
            case what.Withdrew():
                self._running.pop(key, None)
                if candidate is not None and candidate.elected_at is None and not candidate.token:
                    self._tried(fact, candidate, "withdrew", {})

    def _tried(
        self, fact: Fact, candidate: Candidate | None, outcome: str, more: dict[str, int]
    ) -> "SpanContext | None":
        if candidate is None or candidate.asking_since is None:
            return None
        span = self._begun("tenure.election", fact, candidate.asking_since, None)
        span.set_attributes({"tenure.outcome": outcome, **more})
        span.end(_wall_ns(fact, fact.at_ns))
        return span.get_span_context()

    def _led(self, fact: Fact, left: what.Left, candidate: Candidate | None, running: _Running | None) -> None:
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415  (an extra)

        if candidate is None or candidate.elected_at is None:
            return
        span = self._begun("tenure.tenure", fact, candidate.elected_at, running.elected_by if running else None)
        span.set_attributes({"tenure.token": left.token, "tenure.reason": left.reason.value})
        if candidate.margin_least_ns is not None:
            span.set_attribute("tenure.renewal_margin_least_s", candidate.margin_least_ns / 1e9)
        for event in running.events if running else ():
            said = {
                f"tenure.{name}": value for name, value in as_json(event).items() if name in ("reason", "late_by_s")
            }
            span.add_event(
                event.name, {name: _plain(value) for name, value in said.items()}, _wall_ns(fact, event.at_ns)
            )
        if left.reason is not Reason.RESIGNED:
            span.set_status(Status(StatusCode.ERROR, left.reason.value))
        span.end(_wall_ns(fact, fact.at_ns))

    def _begun(self, name: str, fact: Fact, since_ns: int, after: "SpanContext | None") -> "Span":
        from opentelemetry.context import Context  # noqa: PLC0415  (an extra)
        from opentelemetry.trace import Link  # noqa: PLC0415  (an extra)

        told = {"tenure.store": fact.store, "tenure.election": fact.election, "tenure.holder": str(fact.holder)}
        links = [Link(after)] if after is not None else []
        began = _wall_ns(fact, since_ns)
        return self._tracer.start_span(name, Context(), attributes=told, links=links, start_time=began)


def _plain(value: object) -> str | float:
    return value if isinstance(value, float) else str(value)


def _wall_ns(fact: Fact, instant: int) -> int:
    """Return an instant of the boot clock in Unix time, as the clock on the wall was when ``fact`` happened.

    Were each instant dated by the wall clock of its own moment, a clock that was set in between would make a span that ends before it begins.
    """
    return int(fact.at_s * 1e9) - (fact.at_ns - instant)

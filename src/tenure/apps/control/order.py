"""Orders and deliveries: what a leader says to a worker, what the worker answers, and how both read as JSON. No IO.

    {"number": 17, "complete": false, "orders": [{"id": "crawl-7", "payload": {"host": "example.org"}}]}

A delivery is all or nothing. Within one tenure deliveries are numbered, and an older one that comes late counts for nothing:
otherwise what a leader has withdrawn would come back with a request that was delayed on its way.

What is measured are bytes of UTF-8, with no escapes but those that JSON demands: leaders in other languages write so, and in ASCII each of their
letters would count for up to six.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import InitVar, asdict, dataclass, field
from itertools import count
from typing import Any, Final, Self

from tenure.errors import ConfigError, Refused

ORDER_BYTES_MAX: Final = 64 * 1024  # What is larger belongs into a store, and the order says where it is.
DELIVERY_BYTES_MAX: Final = 4 * 2**20
DELIVERY_ORDERS_MAX: Final = 1000
ID_BYTES_MAX: Final = 200
NUMBER_MAX: Final = 2**53 - 1  # Many readers of JSON round what is above it.
# An escape in ASCII: a pair that stands for one character, one alone, or any other. Each is matched whole, so that in ``\\\\u0041`` none is seen.
_ESCAPE: Final = re.compile(r"(\\ud[89ab]..\\ud[c-f]..)|\\u(?!00[01]|d[89a-f])(....)|\\.")
# A tenure belongs to one process, so one row of numbers for all of its tenures rises within each.
_NUMBERS: Final = count(1)


class NotTaken(Refused):
    """A worker does not take a delivery because of what it says, and would not at any other time."""


@dataclass(frozen=True, slots=True)
class Order:
    """Something to do, by a name that is used once: whoever gets it a second time does nothing.

    ``payload`` is anything that JSON can say, of at most 64 KiB; bytes go as base64. ``text`` is that JSON, in one spelling: in ASCII, as
    journals have it.
    """

    id: str
    payload: Any = field(compare=False)
    text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        given: object = self.id  # what came as JSON may be anything
        if not isinstance(given, str) or not self.id.isprintable() or not 0 < _size(self.id) <= ID_BYTES_MAX:
            rule = f"must be printable text of 1 to {ID_BYTES_MAX} bytes"
            raise ConfigError("order", ascii(self.id)[:40], rule)
        object.__setattr__(self, "text", _json(f"payload of order {self.id[:40]!r}", self.payload))
        size = len(_utf8(self.text))
        if size > ORDER_BYTES_MAX:
            rule = f"must have at most {ORDER_BYTES_MAX} as JSON: keep it elsewhere, and send where it is"
            raise ConfigError(f"order {self.id[:40]!r}", f"{size} bytes", rule)


@dataclass(frozen=True, slots=True)
class AcceptedOrder(Order):
    """An order as a worker has it: with the token and the fence that it came under, so a sink can be bound to it."""

    token: int
    fence: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """Orders that a worker gets in one step. ``complete``: these are all, and what it has besides is withdrawn.

    None at all, and not complete, says only that there is a leader. ``number`` rises within a tenure; a delivery that is sent again
    because no answer came keeps it. ``arrived``: how many bytes it was that arrived; else it is measured as it is sent.
    """

    orders: tuple[Order, ...] = ()
    complete: bool = False
    number: int = field(default_factory=_NUMBERS.__next__)
    arrived: InitVar[int | None] = None

    def __post_init__(self, arrived: int | None) -> None:
        if len(self.orders) > DELIVERY_ORDERS_MAX:
            raise ConfigError("delivery", f"{len(self.orders)} orders", f"must have at most {DELIVERY_ORDERS_MAX}")
        seen = set[str]()
        for order in self.orders:
            if order.id in seen:
                raise ConfigError("delivery", f"two orders {order.id[:40]!r}", "must name each order once")
            seen.add(order.id)
        if type(self.number) is not int or not 1 <= self.number <= NUMBER_MAX:
            raise ConfigError("number of delivery", ascii(self.number)[:40], f"must be from 1 to {NUMBER_MAX}")
        # Here, and not when it is sent: of the deliveries to many workers some would be sent by then, and taken.
        # What has arrived is not written again to be measured: another language may write its numbers shorter than we do.
        size = len(self.to_json()) if arrived is None else arrived
        if size > DELIVERY_BYTES_MAX:
            rule = f"must have at most {DELIVERY_BYTES_MAX}: send it in parts that are not complete"
            raise ConfigError("delivery", f"{size} bytes", rule)

    @classmethod
    def of(cls, orders: Mapping[str, Any] | Iterable[Order], *, complete: bool = False) -> Self:
        """Return a delivery of orders, or of payloads by the ids of their orders."""
        if isinstance(orders, Mapping):
            orders = [Order(id_, payload) for id_, payload in orders.items()]
        return cls(tuple(orders), complete)

    def to_json(self) -> bytes:
        """Return what is sent."""
        complete, orders = json.dumps(self.complete).encode(), b",".join(map(_sent, self.orders))
        return b'{"number":%d,"complete":%b,"orders":[%b]}' % (self.number, complete, orders)

    @classmethod
    def from_json(cls, body: bytes) -> Self:
        """Return what was sent. Raises ConfigError for anything else, and nothing of it counts then."""
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            raise ConfigError("delivery", f"{len(body)} bytes", "must be JSON") from None
        if not isinstance(said, dict) or said.keys() != {"number", "complete", "orders"}:
            raise ConfigError("delivery", type(said).__name__, "must be an object of number, complete and orders")
        complete, orders = said["complete"], said["orders"]
        if not isinstance(complete, bool) or not isinstance(orders, list):
            raise ConfigError("delivery", "complete and orders", "must be true or false, and a list")
        for order in orders:
            if not isinstance(order, dict) or order.keys() != {"id", "payload"}:
                raise ConfigError("delivery", type(order).__name__, "must have objects of id and payload as orders")
        return cls(tuple(Order(order["id"], order["payload"]) for order in orders), complete, said["number"], len(body))


@dataclass(frozen=True, slots=True)
class Receipt:
    """A worker's acknowledgement, each order by its id: durable on its disk when this is sent.

    ``accepted``   new, and from now on in force
    ``known``      in force already: this was a re-delivery
    ``over``       done before, or withdrawn; it is not begun again
    ``withdrawn``  no longer in force, since a complete delivery did not name it
    """

    accepted: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        """Return what is sent."""
        return json.dumps(asdict(self)).encode("ascii")

    @classmethod
    def from_json(cls, body: bytes) -> Self:
        """Return what a worker said. Raises ConfigError for anything else."""
        try:
            said = json.loads(body)
            fields = {name: tuple(map(str, said[name])) for name in ("accepted", "known", "over", "withdrawn")}
        except (ValueError, RecursionError, KeyError, TypeError):
            raise ConfigError("receipt", f"{len(body)} bytes", "must be a worker's answer to a delivery") from None
        return cls(**fields)


def _sent(order: Order) -> bytes:
    return b'{"id":%b,"payload":%b}' % (_utf8(json.dumps(order.id)), _utf8(order.text))


def _utf8(text: str) -> bytes:
    """Return JSON that is in ASCII in UTF-8. Half of a pair stays escaped: there is no UTF-8 of it."""
    return (_ESCAPE.sub(_unescaped, text) if "\\u" in text else text).encode()


def _unescaped(escape: re.Match[str]) -> str:
    return str(json.loads(f'"{escape[0]}"')) if escape.lastindex else escape[0]


def _json(setting: str, payload: object) -> str:
    try:
        # Sorted, so that equal orders are equal texts. In ASCII, because journals have it so, and SQLite takes no half of a pair.
        return json.dumps(payload, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ConfigError(setting, type(payload).__name__, "must be JSON; bytes go as base64") from None


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))

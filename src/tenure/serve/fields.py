"""What a request may say, as data: the same table checks it, and describes it in the OpenAPI document."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, Literal
from urllib.parse import parse_qsl

from tenure.serve.answers import Fault

Kind = Literal["number", "integer", "string"]
QUERY_FIELDS_MAX: Final = 20
_TYPES: Final[dict[Kind, tuple[type, ...]]] = {"number": (int, float), "integer": (int,), "string": (str,)}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a body or a query."""

    name: str
    kind: Kind
    about: str
    required: bool = False
    least: float | None = None
    most: float | None = None  # of a text: its length
    choices: tuple[str, ...] = ()
    many: bool = False  # of a query: it may be given again and again

    @property
    def schema(self) -> dict[str, Any]:
        """Return it as JSON Schema."""
        shown: dict[str, Any] = {"type": self.kind}
        names = ("minLength", "maxLength") if self.kind == "string" else ("minimum", "maximum")
        shown |= {name: value for name, value in zip(names, (self.least, self.most), strict=True) if value is not None}
        if self.choices:
            shown["enum"] = list(self.choices)
        return {"type": "array", "items": shown} if self.many else shown

    def check(self, value: object) -> Any:
        """Return the value if it may stand here; raises Fault otherwise."""
        if isinstance(value, bool) or not isinstance(value, _TYPES[self.kind]):
            raise self._refuse(f"must be a {self.kind}")
        if isinstance(value, float) and not math.isfinite(value):
            raise self._refuse("must be finite")
        size = len(value) if isinstance(value, str) else value
        assert isinstance(size, int | float), "nothing else has passed"
        if (self.least is not None and size < self.least) or (self.most is not None and size > self.most):
            what = "have a length" if self.kind == "string" else "be"
            raise self._refuse(f"must {what} from {self.least or 0:g} to {self.most or math.inf:g}")
        if self.choices and value not in self.choices:
            raise self._refuse(f"must be one of {', '.join(self.choices)}")
        return value

    def parse(self, text: str) -> Any:
        """Return the value that a query says in text; raises Fault if it may not stand here."""
        if self.kind == "string":
            return self.check(text)
        try:
            number = (int if self.kind == "integer" else float)(text)
        except ValueError:
            raise self._refuse(f"must be a {self.kind}") from None
        return self.check(number)

    def _refuse(self, rule: str) -> Fault:
        return Fault(422, "invalid", f"{self.name} {rule}", field=self.name)


def body_of(fields: Sequence[Field], content: bytes) -> dict[str, Any]:
    """Return what a body says. Raises Fault if it is no JSON object, or says what it may not."""
    given = _parsed(content) if content.strip() else {}
    if not isinstance(given, dict):
        raise Fault(422, "invalid", "the body must be a JSON object", field="")
    by_name = {field.name: field for field in fields}
    for name in given:
        if name not in by_name:
            near = get_close_matches(name, by_name, n=1)
            fix = f"Did you mean {near[0]}?" if near else f"It may have: {', '.join(by_name) or 'nothing'}."
            raise Fault(422, "invalid", f"the body has an unknown field {name[:40]!r}", fix=fix, field=name[:40])
    _check_all_there(fields, given)
    return {name: by_name[name].check(value) for name, value in given.items() if value is not None}


def query_of(fields: Sequence[Field], query: bytes) -> dict[str, Any]:
    """Return what a query says. Raises Fault if it says what it may not; what it says besides is left alone."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=1000)
    except ValueError:  # Also what is no UTF-8.
        raise Fault(400, "bad-query", "the query cannot be read") from None
    found: dict[str, Any] = {}
    for field in fields:
        values = [field.parse(value) for name, value in pairs if name == field.name]
        if field.many and len(values) <= QUERY_FIELDS_MAX:
            found[field.name] = values
        elif len(values) > 1:
            raise Fault(422, "invalid", f"{field.name} is given {len(values)} times", field=field.name)
        elif values:
            found[field.name] = values[0]
    _check_all_there(fields, found)
    return found


def _check_all_there(fields: Sequence[Field], given: dict[str, Any]) -> None:
    for field in fields:
        if field.required and given.get(field.name) is None:
            raise Fault(422, "invalid", f"{field.name} is missing", field=field.name)


def _parsed(content: bytes) -> object:
    def no_number(text: str) -> object:
        raise ValueError(text)

    try:
        return json.loads(content, parse_constant=no_number)
    except (
        ValueError,
        RecursionError,
    ):  # The first also for what is no UTF-8, and for a number of ten thousand digits.
        raise Fault(400, "bad-json", "the body is not JSON", fix="Send one object, in UTF-8.") from None

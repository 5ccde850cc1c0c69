"""Of which elections the record is to be read, and when. Pure: time comes in.

Holders write down what nobody else can know: why they left, how close renewals came, which of their writes were refused. They do so a
little later than it happens, and of a write that is refused a good while after they have left. So each record is read when its election is
first seen, and again, ever later: its leader may have come a moment before. After each change of leader that begins anew; but what is due
before stays so, or one whose leaders last a second would never be read.
"""

from collections.abc import Mapping
from typing import Final

AGAIN_AFTER_S: Final = (2.0, 15.0, 60.0, 300.0)
ELECTIONS_MAX: Final = 1000


class Recall:
    """What was seen of each election, and when to read its record."""

    def __init__(self) -> None:
        self._tokens: dict[str, int | None] = {}
        self._due_s: dict[str, list[float]] = {}

    def saw(self, tokens: Mapping[str, int | None], now_s: float) -> None:
        """Take in who leads, by token, in all elections that there are."""
        for name in self._tokens.keys() - tokens.keys():
            del self._tokens[name]
            self._due_s.pop(name, None)
        for name, token in tokens.items():
            if name in self._tokens:
                if self._tokens[name] != token:
                    again_s = [now_s + after_s for after_s in AGAIN_AFTER_S]
                    before_s = [due_s for due_s in self._due_s.get(name, [])[:1] if due_s < again_s[0]]
                    self._due_s[name] = before_s + again_s
            elif len(self._tokens) >= ELECTIONS_MAX:
                continue
            else:
                self._due_s[name] = [now_s, *(now_s + after_s for after_s in AGAIN_AFTER_S)]
            self._tokens[name] = token

    def due(self, now_s: float) -> str | None:
        """Return the election whose record is to be read now, the longest overdue first; None: none of them."""
        name = min(self._due_s, key=lambda one: self._due_s[one][0], default=None)
        if name is None or self._due_s[name][0] > now_s:
            return None
        del self._due_s[name][0]
        if not self._due_s[name]:
            del self._due_s[name]
        return name

    def forget_due(self) -> None:
        """Read none of them until something changes."""
        self._due_s.clear()

"""SQL as separate statements. Databases differ in what a quote is, so what is not known to end is taken to go on."""

import re
from typing import Final

from tenure.apps.ledger.base import Kind

# What may hide a semicolon. A dollar quote is PostgreSQL's; a backslash escapes in MySQL, and in PostgreSQL after an E.
_HIDING: Final[dict[Kind, str]] = {
    "sqlite": r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/",
    "postgresql": (
        r"(?i:\bE)'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/"
        r"|(?P<tag>\$(?:[A-Za-z_\x80-\uffff][\w\x80-\uffff]*)?\$).*?(?P=tag)"
    ),
    "mysql": r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`[^`]*`|--(?=\s)[^\n]*|\#[^\n]*|/\*.*?\*/",
}
_COMMENT: Final = re.compile(r"\s+|--[^\n]*(?:\n|\Z)|/\*(?!!).*?\*/|\#[^\n]*(?:\n|\Z)", re.DOTALL)
# A body with statements of its own ends with END, and what begins it must not be cut in two. BEGIN alone is a transaction.
_BODY: Final = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMP(?:ORARY)?\s+|DEFINER\s*=\s*\S+\s+)*(?:TRIGGER|PROCEDURE|FUNCTION|EVENT)\b",
    re.IGNORECASE,
)
_BEGIN_OR_END: Final = re.compile(
    r"\b(?:BEGIN|CASE|IF|LOOP|REPEAT|WHILE|END(?:\s+(?:IF|LOOP|REPEAT|WHILE|CASE))?)\b", re.IGNORECASE
)
_FIRST_WORD: Final = re.compile(r"[A-Za-z]+")
# What would end the transaction of a step, or begin another.
ENDING: Final = frozenset({"ABORT", "BEGIN", "COMMIT", "END", "PREPARE", "ROLLBACK", "START"})
# What MySQL commits by itself, together with all that came before.
COMMITTED_BY_ITSELF: Final = frozenset(
    {
        "ALTER",
        "ANALYZE",
        "CREATE",
        "DROP",
        "FLUSH",
        "GRANT",
        "LOCK",
        "OPTIMIZE",
        "RENAME",
        "REPAIR",
        "REVOKE",
        "TRUNCATE",
        "UNLOCK",
    }
)


def split(text: str, kind: Kind) -> list[str]:
    """Return the statements of a text, without what stands between them. The last one needs no semicolon."""
    cut = re.compile(f"{_HIDING[kind]}|(?P<end>;)", re.DOTALL)
    found, begin = [], 0
    for match in cut.finditer(text):
        if match["end"] and not (kind != "postgresql" and _is_open(text[begin : match.start()])):
            found.append(text[begin : match.start()])
            begin = match.end()
    found.append(text[begin:])
    return [statement for part in found if (statement := _bare(part))]


def first_word(statement: str) -> str:
    """Return what a statement does, in capitals; empty: it begins with something else than a word."""
    word = _FIRST_WORD.match(statement)
    return word[0].upper() if word else ""


def _bare(part: str) -> str:
    """Return a statement without comments before it and space around it."""
    at = 0
    while (skipped := _COMMENT.match(part, at)) is not None and skipped.end() > at:
        at = skipped.end()
    return part[at:].rstrip()


def _is_open(part: str) -> bool:
    """Say whether this is the beginning of a body that has not ended. PostgreSQL hides bodies in quotes."""
    statement = _bare(part)
    if not _BODY.match(statement):
        return False
    depth, seen = 0, False
    for word in _BEGIN_OR_END.findall(_HIDDEN.sub(" ", statement)):
        first = word.split()[0].upper()
        if first == "END":
            depth -= 1
        elif first in {"BEGIN", "CASE"} or (seen and first in {"IF", "LOOP", "REPEAT", "WHILE"}):
            depth, seen = depth + 1, True
    return depth > 0


_HIDDEN: Final = re.compile(_HIDING["mysql"], re.DOTALL)

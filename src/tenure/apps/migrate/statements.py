"""SQL as separate statements. What hides a semicolon differs from database to database; what never ends is refused.

One pass over the text: it goes from one letter that may matter to the next.
"""

import re
import sqlite3
from typing import Final

from tenure.apps.ledger.base import Kind

# What may begin something that hides, or end a statement.
_MARKS: Final[dict[Kind, re.Pattern[str]]] = {
    "sqlite": re.compile(r"['\"`\[]|--|/\*|;"),
    "postgresql": re.compile(r"['\"();]|--|/\*|(?<![\w$])\$(?:[^\W\d]\w*)?\$"),
    "mysql": re.compile(r"['\"`]|--(?=\s|\Z)|#|/\*|;"),
}
_COMMENT: Final = re.compile(r"/\*|\*/")
# A comment of MySQL's that is carried out, and by whom.
_CARRIED_OUT: Final = re.compile(r"/\*M?!\d*")
_SPACE: Final = re.compile(r"\s+")
_ROUTINE: Final = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:DEFINER\s*=\s*\S+\s+)?(?:AGGREGATE\s+)?(?:TRIGGER|PROCEDURE|FUNCTION|EVENT|PACKAGE)\b",
    re.IGNORECASE,
)
_BODY: Final = re.compile(r"\bBEGIN\s+ATOMIC\b", re.IGNORECASE)
_END: Final = re.compile(r"\bEND\s*\Z", re.IGNORECASE)
_ENDING: Final = re.compile(
    r"(?:ABORT|BEGIN|COMMIT|END|ROLLBACK(?!\s+(?:WORK\s+|TRANSACTION\s+)?TO\b)|(?:START|PREPARE)\s+TRANSACTION"
    r"|SET\s+(?:SESSION\s+|@@(?:SESSION\.)?)?AUTOCOMMIT)\b",
    re.IGNORECASE,
)
# What MySQL commits by itself, together with all that came before. Not all there is: what else commits is noticed by the record.
_COMMITTED: Final = re.compile(
    r"(?:ALTER|ANALYZE|BACKUP|CHECK|CREATE(?!\s+(?:OR\s+REPLACE\s+)?TEMPORARY)|DROP(?!\s+TEMPORARY)|FLUSH|GRANT|INSTALL|LOCK|OPTIMIZE|RENAME|REPAIR|RESET"
    r"|REVOKE|SET\s+PASSWORD|TRUNCATE|UNINSTALL|UNLOCK)\b",
    re.IGNORECASE,
)
_FED: Final = re.compile(r"COPY\b.*\bFROM\s+STDIN\b", re.IGNORECASE | re.DOTALL)


class NeverEnds(Exception):
    """A quote or a comment is open at the end of the text."""


def split(text: str, kind: Kind) -> list[str]:
    """Return the statements of a text, without what stands between them. The last one needs no semicolon.

    In MySQL a routine goes on to the end of the text: what it is made of can only be told by a server. Raises NeverEnds.
    """
    found: list[str] = []
    begin = at = depth = 0
    while (mark := _MARKS[kind].search(text, at)) is not None:
        match mark[0]:
            case "(":
                depth, at = depth + 1, mark.end()
            case ")":
                depth, at = max(depth - 1, 0), mark.end()
            case ";":
                at = mark.end()
                if depth == 0 and _is_whole(text[begin : mark.start()], kind):
                    found.append(text[begin : mark.start()])
                    begin = at
            case hiding:
                at = _end_of(hiding, text, mark, kind)
    found.append(text[begin:])
    return [statement for part in found if (statement := bare(part, kind))]


def what_ends_it(statement: str) -> str:
    """Return the words by which a statement would end the transaction of its step, or begin another; empty: none."""
    return _first(_ENDING, statement)


def what_commits(statement: str) -> str:
    """Return the words by which a statement is committed by MySQL itself, as far as that can be told by them; empty: none."""
    return _first(_COMMITTED, statement)


def is_fed(statement: str) -> bool:
    """Say whether a statement waits for data of the client's."""
    return _FED.match(statement) is not None


def bare(part: str, kind: Kind) -> str:
    """Return a statement without comments before it and space around it."""
    at = 0
    while True:
        if space := _SPACE.match(part, at):
            at = space.end()
        mark = _MARKS[kind].match(part, at)
        if mark is None or mark[0] not in {"--", "#", "/*"} or (kind == "mysql" and _CARRIED_OUT.match(part, at)):
            return part[at:].rstrip()
        at = _end_of(mark[0], part, mark, kind)


def _first(words: re.Pattern[str], statement: str) -> str:
    inside = _CARRIED_OUT.match(statement)
    found = words.match(statement[inside.end() :].lstrip() if inside else statement)
    return " ".join(found[0].upper().split()) if found else ""


def _is_whole(part: str, kind: Kind) -> bool:
    """Say whether a statement ends here. A routine has statements of its own."""
    if kind == "sqlite":
        return sqlite3.complete_statement(f"{part};") or not bare(part, kind)
    if kind == "mysql":
        return not _ROUTINE.match(bare(part, kind))
    return not _BODY.search(part) or _END.search(part) is not None


def _end_of(hiding: str, text: str, mark: re.Match[str], kind: Kind) -> int:
    """Return where what hides has ended."""
    if hiding in {"--", "#"}:
        line_end = text.find("\n", mark.end())
        return len(text) if line_end < 0 else line_end + 1
    if hiding == "/*":
        return _end_of_comment(text, mark.end(), nests=kind == "postgresql")
    if hiding == "[":
        return _after(text, "]", mark.end())
    if hiding.startswith("$"):
        return _after(text, hiding, mark.end())
    at, escapes = mark.end(), _escapes(hiding, text, mark.start(), kind)
    while True:
        end = _after(text, hiding, at)
        if escapes and _is_escaped(text, end - 1, mark.end()):
            at = end
        elif text.startswith(hiding, end):  # A quote that is doubled stands for itself.
            at = end + 1
        else:
            return end


def _escapes(quote: str, text: str, at: int, kind: Kind) -> bool:
    if kind == "mysql":
        return quote != "`"
    # E'…', and what goes on after it on the next line, which has no E of its own.
    return (
        kind == "postgresql"
        and quote == "'"
        and re.search(r"\bE\s*\Z|\bE'[^;]*'\s*\n\s*\Z", text[:at][-4096:], re.IGNORECASE) is not None
    )


def _is_escaped(text: str, at: int, begin: int) -> bool:
    slashes = 0
    while at - slashes > begin and text[at - slashes - 1] == "\\":
        slashes += 1
    return slashes % 2 == 1


def _end_of_comment(text: str, at: int, *, nests: bool) -> int:
    if not nests:
        return _after(text, "*/", at)
    depth = 1
    while (mark := _COMMENT.search(text, at)) is not None:
        depth, at = depth + (1 if mark[0] == "/*" else -1), mark.end()
        if depth == 0:
            return at
    raise NeverEnds("/*")


def _after(text: str, end: str, at: int) -> int:
    found = text.find(end, at)
    if found < 0:
        raise NeverEnds(end)
    return found + len(end)

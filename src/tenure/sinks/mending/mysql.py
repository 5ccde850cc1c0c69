"""The fences of a MySQL or MariaDB database. Lowering is one transaction, which the server ends if its client is frozen."""

from typing import Final

from tenure.sinks.mending.over_sql import KEPT, WAIT_MS, SqlFences
from tenure.sinks.mysql.dialect import MySQLDialect
from tenure.sinks.mysql.on_asyncmy import AsyncmyDriver
from tenure.sinks.mysql.schema import REPAIRS
from tenure.sinks.repairing import Fences, Repair, moved, no_fences
from tenure.sinks.sql.talk import Ask, Talk, Trouble

_STANDS: Final = "SELECT highest FROM tenure_fence WHERE fence = UNHEX(%s)"
_RECORD: Final = "INSERT INTO tenure_fence_repairs (fence, was, now, who, `when`, why, lowered_by) VALUES (UNHEX(%s), %s, %s, %s, %s, %s, CURRENT_USER())"
_LOWER: Final = "UPDATE tenure_fence SET highest = %s, raised_at = CURRENT_TIMESTAMP(6), raised_by = CURRENT_USER() WHERE fence = UNHEX(%s)"
_DELETE: Final = "DELETE FROM tenure_fence WHERE fence = UNHEX(%s)"
_NO_TABLE, _LOCK_TIMEOUT = "1146", "1205"
_NO_RIGHT: Final = {"1142", "1143"}
_TRIES_MAX: Final = 5  # Each that fails is one of another's seal.


class MySQLFences(SqlFences):
    """See ``Mendable``."""

    def __init__(self, url: str) -> None:
        super().__init__(AsyncmyDriver(url, {}), MySQLDialect())

    def looked(self) -> Talk[Fences]:
        try:
            rows = yield Ask("SELECT fence, highest FROM tenure_fence ORDER BY fence")
        except Trouble as trouble:
            raise (no_fences(self.name) if trouble.code == _NO_TABLE else trouble) from trouble.__cause__
        try:
            repairs = yield Ask("SELECT fence, was, now, who, `when`, why FROM tenure_fence_repairs ORDER BY repair")
        except Trouble as trouble:
            if trouble.code != _NO_TABLE:
                raise
            repairs = []
        highest = {_text(fence): highest for fence, highest in rows}
        return Fences(highest, tuple(Repair(_text(fence), *rest) for fence, *rest in repairs))

    def lowered(self, repair: Repair) -> Talk[None]:
        # Before anything is made there, and before anybody has to wait. It decides nothing.
        highest = (yield from self.looked()).highest.get(repair.fence, 0)
        if highest != repair.was:
            raise moved(repair, highest)
        yield Ask("COMMIT")
        yield from self._ready()
        for attempt in range(_TRIES_MAX):
            try:
                yield from self._lowered(repair)
            except Trouble as trouble:
                if not self.dialect.is_conflict(trouble) or attempt == _TRIES_MAX - 1:
                    raise
                yield Ask("ROLLBACK")
            else:
                return

    def explained(self, trouble: Trouble) -> str:
        if trouble.code in _NO_RIGHT:
            return f"{trouble.text}: only a user with all rights to this database may look at its fences and lower one"
        return KEPT if trouble.code == _LOCK_TIMEOUT else ""

    def _ready(self) -> Talk[None]:
        try:
            yield Ask("SELECT 1 FROM tenure_fence_repairs LIMIT 0")
            yield Ask("COMMIT")
        except Trouble as trouble:
            if trouble.code != _NO_TABLE:
                raise
            yield Ask(REPAIRS)
        # Nobody can check a token while the row is ours, so it is ours no longer than this if we are frozen.
        yield from self.dialect.settings(WAIT_MS, is_own=True)
        yield Ask(f"SET SESSION innodb_lock_wait_timeout = {WAIT_MS // 1000:d}")

    def _lowered(self, repair: Repair) -> Talk[None]:
        fence, was, now, who, when, why = repair.fence, repair.was, repair.now, repair.who, repair.when, repair.why
        name = fence.encode().hex()  # see the sink's words
        yield Ask("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        rows = yield Ask(f"{_STANDS} FOR UPDATE", (name,))
        highest = rows[0][0] if rows else 0
        if highest != was:
            raise moved(repair, highest)
        yield Ask(_RECORD, (name, was, now, who, when, why))
        yield Ask(_LOWER, (now, name)) if now else Ask(_DELETE, (name,))
        yield Ask("COMMIT", turn="end")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")

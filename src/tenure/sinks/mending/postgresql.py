"""The fences of a PostgreSQL database. Lowering is one statement: no client that is frozen can keep the lock."""

from typing import Final

from tenure.sinks.mending.over_sql import KEPT, WAIT_MS, SqlFences
from tenure.sinks.postgresql.dialect import PostgresDialect
from tenure.sinks.postgresql.on_asyncpg import AsyncpgDriver
from tenure.sinks.repairing import Fences, Repair, moved, no_fences
from tenure.sinks.sql.talk import Ask, Rows, Talk, Trouble

# A statement without parameters returns no rows.
_LOOK: Final = "SELECT fence, highest FROM tenure_fence.fences WHERE fence <> $1 ORDER BY fence"
_REPAIRS: Final = 'SELECT fence, was, now, who, "when", why FROM tenure_fence.repairs WHERE fence <> $1 ORDER BY repair'
_LOWER: Final = "SELECT tenure_fence.lower_fence($1, $2, $3, $4, $5, $6, $7)"
_NO_FUNCTION, _CONFLICT, _NO_RIGHT, _LOCK_TIMEOUT = "42883", "40001", "42501", "55P03"
_NO_TABLE: Final = {"42P01", "3F000"}
_TRIES_MAX: Final = 5  # Each that fails is one of a seal's, under a level of isolation that the role has by default.


class PostgresFences(SqlFences):
    """See ``Mendable``."""

    def __init__(self, url: str) -> None:
        super().__init__(AsyncpgDriver(url, {}), PostgresDialect())

    def looked(self) -> Talk[Fences]:
        highest: dict[str, int] = dict((yield from self._fences()))
        try:
            rows = yield Ask(_REPAIRS, ("",))
        except Trouble as trouble:
            if trouble.code not in _NO_TABLE:
                raise
            rows = []  # It was set up before there were repairs.
        return Fences(highest, tuple(Repair(*row) for row in rows))

    def lowered(self, repair: Repair) -> Talk[None]:
        said = (repair.fence, repair.was, repair.now, repair.who, repair.when, repair.why, WAIT_MS)
        for attempt in range(_TRIES_MAX):
            try:
                [(stood,)] = yield Ask(_LOWER, said)
            except Trouble as trouble:
                if trouble.code in _NO_TABLE:
                    raise no_fences(self.name) from trouble
                if trouble.code not in {_NO_FUNCTION, _CONFLICT} or attempt == _TRIES_MAX - 1:
                    raise
                if trouble.code == _NO_FUNCTION:  # As before.
                    yield from self._fences()
                    yield from self.dialect.set_up()
            else:
                if stood != repair.was:
                    raise moved(repair, stood)
                return

    def explained(self, trouble: Trouble) -> str:
        if trouble.code == _NO_RIGHT:
            return f"{trouble.text}: only who owns the schema tenure_fence, or a superuser, may look at its fences and lower one"
        return KEPT if trouble.code == _LOCK_TIMEOUT else ""

    def _fences(self) -> Talk[Rows]:
        try:
            return (yield Ask(_LOOK, ("",)))
        except Trouble as trouble:
            if trouble.code in _NO_TABLE:
                raise no_fences(self.name) from trouble
            raise

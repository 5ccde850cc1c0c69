"""The engine of the store: what is asked for, sent as one statement each. Runs on asyncio."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import asyncpg

from tenure.errors import Refused
from tenure.model import Bid, Document, Grant, Holder, Version
from tenure.stores.base import Wake
from tenure.stores.postgresql.listening import Listening
from tenure.stores.postgresql.schema import creation
from tenure.stores.postgresql.session import PostgresConnector, PostgresSession
from tenure.stores.postgresql.settings import PostgresSettings
from tenure.stores.postgresql.statements import channel_of, statements_for
from tenure.stores.sql.link import Link
from tenure.stores.sql.lookout import Lookout
from tenure.stores.sql.rows import COUNTER_MAX, Ask, Lasting, Office, Taken, microseconds, packed

# A dump has the random number in it. What it is put back into has another system identifier, or the table is another one; and a
# copy that CREATE DATABASE makes is in another database.
_IDENTITY: Final = (
    "SELECT concat_ws('/', 'postgresql', c.system_identifier, d.oid, t.oid, s.id) AS identity, t.oid AS table_oid,"
    " pg_sequence_last_value('{schema}.token') AS counted"
    " FROM {schema}.store s, pg_control_system() c, pg_database d, (SELECT '{schema}.office'::regclass::oid) t (oid)"
    " WHERE d.datname = current_database() ORDER BY s.id LIMIT 1"
)
_ANOTHER: Final = "this is another database than before: open the store again"
_THERE: Final = (
    "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = $1 AND c.relname IN ('office', 'store', 'token')"
)
_PARTS: Final = 3
_DOCUMENTS_THERE: Final = "SELECT count(*) FROM pg_tables WHERE schemaname = $1 AND tablename = 'document'"

T = TypeVar("T")


class PostgresEngine:
    """PostgreSQL as ``SqlStore`` asks it."""

    def __init__(self, settings: PostgresSettings) -> None:
        self.settings = settings
        self._sql = statements_for(settings.schema)
        self._connector = PostgresConnector(settings)
        self.link = Link(settings.sql.address, settings.sql.endpoints, self._connector)
        self._listening = Listening(channel_of(settings.schema), self._connect_to_listen, self._notify)
        self._pooled = False
        self._identity, self._table_oid = "", 0
        self._latest_token = 0  # that this process has seen given
        self._checked: PostgresSession | None = None
        self._with_documents: PostgresSession | None = None

    async def open(self) -> str:
        timeout_s = self.settings.sql.timeout_s

        async def prepare(session: PostgresSession) -> str:
            schema = self.settings.schema
            [(there,)] = await session.fetch(_THERE, [schema])
            if there < _PARTS:
                await self._create(session)
            self._pooled = session.pooled
            about = await self._about_store(session, "open")
            self._identity, self._table_oid = about["identity"], about["table_oid"]
            return self._identity

        return await self.link.run("open", prepare, timeout_s)

    async def _about_store(self, session: PostgresSession, operation: str) -> Mapping[str, Any]:
        """Return which database this is, which table, and how far its counter is."""
        schema = self.settings.schema
        rows = await session.fetch(_IDENTITY.format(schema=schema), [])
        if not rows:
            raise Refused(self.settings.sql.address, operation, f"{schema}.store is empty, and must have one row")
        return cast("Mapping[str, Any]", rows[0])

    async def _check(self, session: PostgresSession, operation: str) -> None:
        """Make sure that this is the database we know, and has not gone back."""
        about = await self._about_store(session, operation)
        last = packed(session.timeline, about["counted"] or 0)
        if about["identity"] == self._identity and last >= self._latest_token:
            self._checked = session
            return
        session.abort()
        if about["identity"] != self._identity:
            told = _ANOTHER
        else:
            name = f"{self.settings.schema}.token"
            told = f"{name} has gone back: the last token would be {last}, and was {self._latest_token}; was a backup put back?"
            told += f" SELECT setval('{name}', {self._latest_token & COUNTER_MAX}) puts it right"
        raise Refused(self.settings.sql.address, operation, told)

    def _check_table(self, session: PostgresSession, operation: str, row: Mapping[str, Any]) -> None:
        """Make sure of it in each answer as well: a plan goes on with whatever table has the name of one that was dropped."""
        if row["table_oid"] not in (None, self._table_oid):
            session.abort()
            raise Refused(self.settings.sql.address, operation, _ANOTHER)

    def _run(
        self, operation: str, work: Callable[[PostgresSession], Awaitable[T]], within_s: float
    ) -> Coroutine[Any, Any, T]:
        async def checked(session: PostgresSession) -> T:
            if session is not self._checked:
                await self._check(session, operation)
            return await work(session)

        return self.link.run(operation, checked, within_s)

    async def _create(self, session: PostgresSession, operation: str = "open") -> None:
        try:
            await session.run_script(creation(self.settings.schema))
        except asyncpg.InsufficientPrivilegeError as error:
            await session.connection.execute("ROLLBACK")
            told = f"the schema {self.settings.schema} is not there, or not whole, and we may not make it ({error})"
            detail = f"{told}: have somebody run what tenure doctor --schema prints"
            raise Refused(self.settings.sql.address, operation, detail) from None

    async def close(self) -> None:
        await self._listening.end()
        await self.link.close()

    async def claim(self, ask: Ask, within_s: float) -> Taken | Office | None:
        bid, holder = ask.bid, ask.bid.holder
        who = [bid.election, holder.host, holder.pid, holder.nonce, bid.serial]
        what = [microseconds(bid.ttl_ns), bid.advertise, ask.observed]

        async def take(session: PostgresSession) -> Taken | Office | None:
            rows = await session.fetch(self._sql.claim, [*who, *what, *ask.seen, ask.goes_on, ask.mark])
            if not rows:  # Who has it is asked for only now: that in one statement makes every claim dearer by a third.
                rows = await session.fetch(self._sql.look, [[bid.election]])
                if rows:
                    self._check_table(session, "claim", rows[0])
                    return _office(rows[0])
                # There is no row yet; and if somebody makes it at this moment, it is looked at again.
                rows = await session.fetch(self._sql.first, [*who, *what])
            if not rows:
                return None
            [row] = rows
            self._check_table(session, "claim", row)
            self._latest_token = max(self._latest_token, row["taken"])
            return Taken(row["taken"], row["as_version"])

        return await self._run("claim", take, within_s)

    async def renew(self, grants: list[Grant], within_s: float, *, observed: bool) -> Lasting:
        bids = [grant.bid for grant in grants]
        columns: list[Sequence[Any]] = [
            [bid.election for bid in bids],
            [grant.token for grant in grants],
            [bid.holder.host for bid in bids],
            [bid.holder.pid for bid in bids],
            [bid.holder.nonce for bid in bids],
            [bid.serial for bid in bids],
            [microseconds(bid.ttl_ns) for bid in bids],
        ]

        async def prolong(session: PostgresSession) -> list[Any]:
            rows = await session.fetch(self._sql.renew, [*columns, observed])
            for row in rows:
                self._check_table(session, "renew", row)
            return rows

        rows = await self._run("renew", prolong, within_s)
        return {(row["election"], row["token"]): (row["version"], row["asked"]) for row in rows}

    async def release(self, bid: Bid, marks: list[str], within_s: float) -> None:
        async def leave(session: PostgresSession) -> None:
            # First: what comes after this has no effect, and what came before it is seen by the next statement.
            if marks:
                await session.fetch(self._sql.withdraw, [bid.election, "".join(marks)])
            await session.fetch(self._sql.release, _whose(bid))

        await self._run("release", leave, within_s)

    async def proclaim(self, grant: Grant, address: str, within_s: float) -> bool:
        arguments = [*_whose(grant.bid), grant.token, address]
        return bool(await self._fetch("proclaim", self._sql.proclaim, arguments, within_s))

    async def ask_to_resign(self, election: str, token: int, within_s: float) -> bool:
        return bool(await self._fetch("ask_to_resign", self._sql.resign, [election, token], within_s))

    async def look(self, elections: list[str] | None, operation: str, within_s: float) -> list[Office]:
        if elections is None:
            rows = await self._fetch(operation, self._sql.look_at_all, [], within_s)
        else:
            rows = await self._fetch(operation, self._sql.look, [elections], within_s)
        return [_office(row) for row in rows]

    async def fetch(self, key: str, within_s: float) -> Document | None:
        async def read(session: PostgresSession) -> Document | None:
            if not await self._has_documents(session):
                return None
            rows = await session.fetch(self._sql.fetch, [key])
            return Document(rows[0]["value"], rows[0]["version"]) if rows else None

        return await self._run("fetch", read, within_s)

    async def write(self, key: str, document: Document, version: Version | None, within_s: float) -> bool:
        what = [key, document.value, document.version]

        async def put(session: PostgresSession) -> bool:
            if not await self._has_documents(session):
                await self._create(session, "swap")
            if version is None:
                return bool(await session.fetch(self._sql.write_first, what))
            return bool(await session.fetch(self._sql.write, [*what, version]))

        return await self._run("swap", put, within_s)

    async def _has_documents(self, session: PostgresSession) -> bool:
        """Say whether there is a table of documents, which a schema that was made before there were any has not."""
        if session is not self._with_documents:
            [(there,)] = await session.fetch(_DOCUMENTS_THERE, [self.settings.schema])
            self._with_documents = session if there else None
        return session is self._with_documents

    async def listen(self, lookout: Lookout) -> None:
        await self._listening.begin(lookout)

    async def try_to_listen(self) -> None:
        """Find out whether notifications arrive; ``wake`` tells."""
        await self._listening.begin(Lookout(_nobody_waits, self.settings.sql.poll_s))

    async def about(self, question: str) -> tuple[dict[str, Any], int, bool]:
        """Return what the server says of itself, which timeline it is on, and whether there is a pooler between."""

        async def ask(session: PostgresSession) -> tuple[dict[str, Any], int, bool]:
            [row] = await session.fetch(question, [])
            return dict(row), session.timeline, session.pooled

        return await self.link.run("examine", ask, self.settings.sql.timeout_s)

    @property
    def wake(self) -> Wake:
        works = self._listening.works
        return Wake.NOTIFY if works or (works is None and not self._pooled) else Wake.POLL

    @property
    def token_source(self) -> str:
        return "the server's timeline, and a counter of the database below it"

    async def _fetch(self, operation: str, statement: str, arguments: list[Any], within_s: float) -> list[Any]:
        return await self._run(operation, lambda session: session.fetch(statement, arguments), within_s)

    async def _notify(self, payload: str) -> None:
        arguments = [channel_of(self.settings.schema), payload]
        await self._fetch("listen", "SELECT pg_notify($1, $2)", arguments, self.settings.sql.timeout_s)

    async def _connect_to_listen(self) -> "asyncpg.Connection[Any]":
        """Connect to the server that takes our writes: notifications do not leave it."""
        endpoint = await self.link.endpoint("listen", self.settings.sql.timeout_s)
        return await self._connector.raw(endpoint)


async def _nobody_waits(_: list[str]) -> dict[str, int]:
    return {}


def _whose(bid: Bid) -> list[Any]:
    return [bid.election, bid.holder.host, bid.holder.pid, bid.holder.nonce, bid.serial]


def _office(row: Mapping[str, Any]) -> Office:
    holder = None
    # A row that was edited by hand may name half a holder, which is nobody.
    if row["nonce"] is not None and row["host"] is not None and row["pid"] is not None:
        holder = Holder(row["host"], row["pid"], row["nonce"])
    left_us = row["left_us"]
    return Office(
        row["election"],
        row["token"],
        row["version"],
        holder,
        row["serial"] or 0,
        (row["ttl_us"] or 0) * 1000,
        None if left_us is None else left_us * 1000,
        max(0, (row["held_us"] or 0) * 1000),
        row["resign"] is not None and row["resign"] == row["token"],
        row["advertised"],
    )

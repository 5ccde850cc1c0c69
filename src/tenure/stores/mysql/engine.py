"""The engine of the store: what is asked for, as guarded statements. Runs on asyncio.

Rules of this file
1. A row is read, and then written only if it is still what was read; whatever was read is nobody's word.
2. A token is counted before the row is written, above everything that the row or the counter has had. One that is not used leaves
   a gap. A row above the counter is refused, unless another server counted last.
3. A server whose counter has gone back below what this process has seen of it is refused.
"""

from typing import Any

from asyncmy.errors import MySQLError

from tenure.errors import Refused, Unreachable
from tenure.model import Bid, Document, Grant, Holder, Version
from tenure.stores.base import Wake
from tenure.stores.mysql.faults import READ_ONLY
from tenure.stores.mysql.schema import creation
from tenure.stores.mysql.session import MySqlConnector, MySqlSession
from tenure.stores.mysql.settings import MySqlSettings
from tenure.stores.mysql.statements import renewal, statements_for
from tenure.stores.sql.link import Link
from tenure.stores.sql.lookout import Lookout
from tenure.stores.sql.rows import EPOCH_MAX, Ask, Lasting, Office, Taken, epoch_of, microseconds, packed

_TRIES_MAX = 8
_NO_TABLE = 1146
_MAY_NOT_CREATE = (1142, 1044)
_RUBBISH = "No server counts that far: set the row to a lower one"


class MySqlEngine:
    """MySQL or MariaDB as ``SqlStore`` asks it."""

    def __init__(self, settings: MySqlSettings) -> None:
        self.settings = settings
        self._sql = statements_for(settings.prefix)
        self._address = settings.sql.address
        self.link = Link(self._address, settings.sql.endpoints, MySqlConnector(settings))
        self._identity = ""
        self._latest_token = 0  # that this process has seen counted
        self._checked: MySqlSession | None = None

    async def open(self) -> str:
        async def prepare(session: MySqlSession) -> str:
            rows = await self._store_rows(session)
            if not rows:  # or not yet: somebody may be making the tables at this moment
                await self._create(session)
                rows = await session.fetch(self._sql.store)
            if not rows:
                name = f"{self.settings.prefix}store"
                raise Refused(self._address, "open", f"{name} is empty, and must have one row")
            self._identity = f"mysql/{rows[0]['id']}"
            await self._check(session, "open")
            return self._identity

        return await self.link.run("open", prepare, self.settings.sql.timeout_s)

    async def _store_rows(self, session: MySqlSession) -> list[dict[str, Any]]:
        """Return what says which database this is; nothing, if some table is missing."""
        try:
            await session.fetch(f"{self._sql.look} LIMIT 0")
            return await session.fetch(self._sql.store)
        except MySQLError as error:
            if error.args[0] != _NO_TABLE:
                raise
            return []

    async def _create(self, session: MySqlSession, operation: str = "open") -> None:
        try:
            for statement in creation(self.settings.prefix):
                await session.run(statement)
        except MySQLError as error:
            if error.args[0] not in _MAY_NOT_CREATE:
                raise
            told = f"the tables are not there, and we may not make them ({error.args[1]})"
            detail = f"{told}: have somebody run what tenure doctor --schema prints"
            raise Refused(self._address, operation, detail) from None

    async def _check(self, session: MySqlSession, operation: str) -> None:
        """Make sure, once for each connection, that this is the database we know, and has not gone back."""
        if session is self._checked:
            return
        [store] = await session.fetch(self._sql.store)
        if f"mysql/{store['id']}" != self._identity:
            session.abort()
            raise Refused(self._address, operation, "this is another database than before: open the store again")
        last, same_server = int(store["last_token"]), store["server"] == store["here"]
        behind = epoch_of(last) < epoch_of(self._latest_token) or (same_server and last < self._latest_token)
        if behind:
            session.abort()
            name = f"{self.settings.prefix}store"
            told = f"{name}.last_token has gone back to {last}, and was {self._latest_token}: was a backup put back?"
            raise Refused(self._address, operation, f"{told} Set it to {self._latest_token} or more")
        self._checked = session

    async def close(self) -> None:
        await self.link.close()

    async def claim(self, ask: Ask, within_s: float) -> Taken | Office | None:
        bid = ask.bid
        ttl_us = microseconds(bid.ttl_ns)

        async def take(session: MySqlSession) -> Taken | Office | None:
            await self._check(session, "claim")
            rows = await self._rows(session, [bid.election], "claim")
            row = rows[0] if rows else None
            office = None if row is None else _office(row)
            until, unchanged = [ask.observed, ttl_us], [] if office is None else _as_read(office)
            if row is not None and office is not None:
                if ask.goes_on and office.is_of(bid) and not _ended(office):
                    kept = [ttl_us, *until, bid.advertise.encode(), *unchanged]
                    changed, _ = await session.run(self._sql.keep, kept)
                    return Taken(office.token, office.version + 1) if changed else None
                if not _may_take(ask, office) or ask.mark.encode() in row["withdrawn"]:
                    return office
            token = await self._count(session, 0 if office is None else office.token)
            written = [token, *_whose(bid)[1:], ttl_us, *until, bid.advertise.encode()]
            if office is None:
                changed, _ = await session.run(self._sql.first, [*written, bid.election.encode()])
                return Taken(token, 1) if changed else None
            changed, _ = await session.run(self._sql.take, [*written, *unchanged, ask.mark.encode()])
            return Taken(token, office.version + 1) if changed else None

        return await self.link.run("claim", take, within_s)

    async def _count(self, session: MySqlSession, floor: int) -> int:
        changed, token = await session.run(self._sql.next_token, [floor, floor])
        if not changed:
            raise await self._why_not_counted(session, floor)
        self._latest_token = max(self._latest_token, token)
        return token

    async def _why_not_counted(self, session: MySqlSession, floor: int) -> Refused:
        name = f"{self.settings.prefix}store"
        rows = await session.fetch(self._sql.store)
        if not rows:
            return Refused(self._address, "claim", f"{name} is empty, and must have one row")
        if rows[0]["read_only"]:
            session.abort()
            return Refused(self._address, "claim", f"the server {READ_ONLY}")
        told = f"the row has the token {floor}, which {name}.last_token has not come to: was one of the tables put back alone?"
        advice = (
            f"Set last_token to {packed(epoch_of(floor) + 1, 0)} or more" if epoch_of(floor) < EPOCH_MAX else _RUBBISH
        )
        return Refused(self._address, "claim", f"{told} {advice}")

    async def renew(self, grants: list[Grant], within_s: float, *, observed: bool) -> Lasting:
        elections = [grant.bid.election for grant in grants]
        by_tenure = {(grant.bid.election, int(grant.token)): grant for grant in grants}

        async def prolong(session: MySqlSession) -> Lasting:
            await self._check(session, "renew")
            for _ in range(_TRIES_MAX):
                lasting: list[Office] = []
                for row in await self._rows(session, elections, "renew"):
                    office = _office(row)
                    grant = by_tenure.get((office.election, office.token))  # None: of somebody whom we did not ask for
                    if grant is not None and office.is_of(grant.bid) and not _ended(office):
                        lasting.append(office)
                if not lasting or await self._prolong(session, lasting, observed=observed):
                    return {(each.election, each.token): (each.version + 1, each.resign_asked) for each in lasting}
            raise Unreachable(self._address, "renew", f"others came between {_TRIES_MAX} times: renew again")

        return await self.link.run("renew", prolong, within_s)

    async def _prolong(self, session: MySqlSession, lasting: list[Office], *, observed: bool) -> bool:
        """Prolong what is still as it was read, and say whether that was all. If not, who was left out is not known."""
        names = [office.election.encode() for office in lasting]
        rows = [part for office in lasting for part in _as_read(office)]
        changed, _ = await session.run(renewal(self._sql.renew, len(lasting)), [observed, *names, *rows])
        return changed == len(lasting)

    async def release(self, bid: Bid, marks: list[str], within_s: float) -> None:
        async def leave(session: MySqlSession) -> None:
            if (
                marks
            ):  # First: what comes after this has no effect, and what came before it is seen by the next statement.
                await session.run(self._sql.withdraw, [bid.election.encode(), "".join(marks).encode()])
            await session.run(self._sql.release, _whose(bid))

        await self.link.run("release", leave, within_s)

    async def proclaim(self, grant: Grant, address: str, within_s: float) -> bool:
        arguments = [address.encode(), *_whose(grant.bid), grant.token]
        return await self._changes("proclaim", self._sql.proclaim, arguments, within_s)

    async def ask_to_resign(self, election: str, token: int, within_s: float) -> bool:
        return await self._changes("ask_to_resign", self._sql.resign, [election.encode(), token], within_s)

    async def look(self, elections: list[str] | None, operation: str, within_s: float) -> list[Office]:
        async def see(session: MySqlSession) -> list[Office]:
            await self._check(session, operation)
            return [_office(row) for row in await self._rows(session, elections, operation)]

        return await self.link.run(operation, see, within_s)

    async def fetch(self, key: str, within_s: float) -> Document | None:
        async def read(session: MySqlSession) -> Document | None:
            await self._check(session, "fetch")
            try:
                [row] = await session.fetch(self._sql.fetch, [key.encode()])
            except MySQLError as error:
                if error.args[0] != _NO_TABLE:
                    raise
                return None
            if row["read_only"]:
                session.abort()
                raise Refused(self._address, "fetch", f"the server {READ_ONLY}")
            return None if row["version"] is None else Document(row["value"], Version(_text(row["version"])))

        return await self.link.run("fetch", read, within_s)

    async def write(self, key: str, document: Document, version: Version | None, within_s: float) -> bool:
        what = [document.value, document.version.encode(), key.encode()]

        async def put(session: MySqlSession) -> bool:
            await self._check(session, "swap")
            if version is not None:
                changed, _ = await session.run(self._sql.write, [*what, version.encode()])
                return changed > 0
            try:
                changed, _ = await session.run(self._sql.write_first, what)
            except MySQLError as error:
                if error.args[0] != _NO_TABLE:
                    raise
                await self._create(session, "swap")
                changed, _ = await session.run(self._sql.write_first, what)
            return changed > 0

        return await self.link.run("swap", put, within_s)

    async def listen(self, lookout: Lookout) -> None:
        """Nobody tells of anything here: the lookout looks."""

    async def about(self, question: str) -> dict[str, Any]:
        """Return what the server says of itself."""

        async def ask(session: MySqlSession) -> dict[str, Any]:
            [row] = await session.fetch(question)
            return row

        return await self.link.run("examine", ask, self.settings.sql.timeout_s)

    @property
    def wake(self) -> Wake:
        return Wake.POLL

    @property
    def token_source(self) -> str:
        return "how often another server became the primary, and a counter of the database below it"

    async def _changes(self, operation: str, statement: str, arguments: list[Any], within_s: float) -> bool:
        changed, _ = await self.link.run(operation, lambda session: session.run(statement, arguments), within_s)
        return changed > 0

    async def _rows(self, session: MySqlSession, elections: list[str] | None, operation: str) -> list[dict[str, Any]]:
        if elections is None:
            rows = await session.fetch(self._sql.look)
        else:
            places = ", ".join(["%s"] * len(elections))
            names = [election.encode() for election in elections]
            rows = await session.fetch(f"{self._sql.look} WHERE election IN ({places})", names)
        if rows and rows[0]["read_only"]:
            # A user who may do everything may write here all the same, and nobody would read it.
            session.abort()
            raise Refused(self._address, operation, f"the server {READ_ONLY}")
        return rows


def _may_take(ask: Ask, office: Office) -> bool:
    """Say whether a bid may have a row that is as it was read."""
    if office.holder is None:
        return True
    if office.holder == ask.bid.holder and office.serial <= ask.bid.serial:
        return True
    if ask.observed:
        return ask.seen == (office.token, office.version)
    return _ended(office)


def _ended(office: Office) -> bool:
    return office.remaining_ns is not None and office.remaining_ns <= 0


def _whose(bid: Bid) -> list[Any]:
    holder = bid.holder
    return [bid.election.encode(), holder.host.encode(), holder.pid, holder.nonce.encode(), bid.serial]


def _as_read(office: Office) -> list[Any]:
    return [office.election.encode(), office.token, office.version]


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")  # A row that was edited by hand may have anything.


def _office(row: dict[str, Any]) -> Office:
    holder = None
    if row["nonce"] is not None and row["host"] is not None and row["pid"] is not None:
        holder = Holder(_text(row["host"]), row["pid"], _text(row["nonce"]))
    return Office(
        _text(row["election"]),
        row["token"],
        row["version"],
        holder,
        row["serial"] or 0,
        (row["ttl_us"] or 0) * 1000,
        None if row["observed"] else row["left_us"] * 1000,
        max(0, (row["held_us"] or 0) * 1000),
        row["resign"] is not None and row["resign"] == row["token"],
        _text(row["advertised"]),
    )

"""A client of one Redis: one connection, opened when it is needed, to the server itself or to where Sentinels say. asyncio.

Rules of this file
1. A command is sent once. A library that repeats what was not answered would count twice.
2. Every call has a deadline. A server that misses one is left: the next call opens another connection.
3. What was certainly not sent is Unreachable, what a server said no to is Refused, and everything else is unknown.
4. A replica is not spoken to: it answers reads from its memory.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from tenure.clients.redis.failures import ASKS_FOR_CERTIFICATE, failure, moves, not_connected, words
from tenure.clients.redis.link import Link, Lost
from tenure.clients.redis.resp import Argument, Fault, Reply
from tenure.clients.redis.settings import ENCRYPTED, Settings
from tenure.errors import OutcomeUnknown, Refused, StoreError, Unreachable

_HELLO_FIELDS: Final = ("version", "mode", "role")
_NAME: Final = "tenure"
_ADDRESS_PARTS: Final = 2  # what a Sentinel tells: a host and a port


@dataclass(frozen=True, slots=True)
class Script:
    """A script, which is sent once to each server and named by its digest from then on."""

    text: str
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest())


@dataclass(frozen=True, slots=True)
class About:
    """What a server says of itself when it is greeted."""

    endpoint: str
    version: str
    mode: str  # standalone, sentinel or cluster
    role: str  # master or replica


class RedisClient:
    """Calls one Redis. Used on one event loop, between ``async with`` and its end."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.address = settings, settings.address
        self.about: About | None = None  # whom we speak to, or spoke to last
        self._link: Link | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def __aenter__(self) -> Self:
        # It is done by then: each step has a limit of its own.
        async with asyncio.timeout(self.settings.timeout_s * 2):
            await self._open("open")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self._leave("the store was closed")

    async def call(self, *arguments: Argument, operation: str, within_s: float | None = None) -> Reply:
        """Carry out one command. Raises StoreError; a server's no is one."""
        return self._judged(await self._ask(arguments, operation, within_s), operation)

    async def run(
        self,
        script: Script,
        keys: Sequence[str],
        arguments: Sequence[Argument],
        *,
        operation: str,
        within_s: float | None = None,
    ) -> Reply:
        """Carry out a script, in one step of the server."""
        rest = (len(keys), *keys, *arguments)
        reply = await self._ask(("EVALSHA", script.digest, *rest), operation, within_s)
        if isinstance(reply, Fault) and reply.code == "NOSCRIPT":  # It has certainly not been carried out.
            reply = await self._ask(("EVAL", script.text, *rest), operation, within_s)
        return self._judged(reply, operation)

    async def subscribe(self, on_message: Callable[[Reply], None]) -> Link:
        """Open another connection to the same server, for messages. Whoever asks for it ends it."""
        await self._open("subscribe")
        assert self.about is not None, "opened without a greeting"
        link, _ = await self._greeted(self.about.endpoint, "subscribe", on_message)
        return link

    def _judged(self, reply: Reply, operation: str) -> Reply:
        if isinstance(reply, Fault):
            if moves(reply):
                self._leave("the server is a replica now")
            raise failure(reply, self.address, operation)
        return reply

    async def _ask(self, arguments: tuple[Argument, ...], operation: str, within_s: float | None) -> Reply:
        within_s = self.settings.timeout_s if within_s is None else within_s
        link: Link | None = None
        try:
            async with asyncio.timeout(within_s):
                link = self._link if self._link is not None and not self._link.lost else await self._open(operation)
                try:
                    reply = link.ask(*arguments)
                except Lost as lost:
                    raise Unreachable(self.address, operation, str(lost)) from None
                return await reply
        except TimeoutError:
            if link is None:
                raise Unreachable(self.address, operation, f"no connection within {within_s:g} s") from None
            self._leave("it did not answer in time", link)
            raise OutcomeUnknown(self.address, operation, f"no answer within {within_s:g} s") from None
        except Lost as lost:
            raise OutcomeUnknown(self.address, operation, str(lost)) from None

    def _leave(self, why: str, link: Link | None = None) -> None:
        """Give up the connection that there is, unless it is another than ``link`` by now."""
        if self._link is not None and link in (None, self._link):
            self._link.end(why)
            self._link = None

    # Connecting

    async def _open(self, operation: str) -> Link:
        async with self._opening:
            if self._closed:
                raise Unreachable(self.address, operation, "the store is not open: use async with")
            if self._link is None or self._link.lost:
                settings = self.settings
                endpoint = await self._primary(operation) if settings.service else settings.endpoints[0]
                self._link, self.about = await self._greeted(endpoint, operation)
            return self._link

    async def _primary(self, operation: str) -> str:
        """Ask all Sentinels at once where the primary is, and go by the first answer."""
        tasks = [asyncio.create_task(self._told_by(endpoint, operation)) for endpoint in self.settings.endpoints]
        errors: list[StoreError] = []
        try:
            for answer in asyncio.as_completed(tasks):
                try:
                    return await answer
                except StoreError as failed:
                    errors.append(failed)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        refused = [error for error in errors if isinstance(error, Refused)]
        if refused:
            raise refused[0]
        told = "; ".join(error.detail for error in errors)
        raise Unreachable(self.address, operation, f"no Sentinel says where the primary is: {told}")

    async def _told_by(self, endpoint: str, operation: str) -> str:
        settings, link = self.settings, None
        try:
            async with asyncio.timeout(settings.timeout_s):
                link = await self._connected(endpoint, operation)
                login = (settings.sentinel_user, settings.sentinel_password)
                await self._hello(link, login, endpoint, operation, sentinel=True)
                found = await link.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", settings.service)
        except Lost as lost:
            raise Unreachable(self.address, operation, f"{endpoint}: {lost}{self._hint(str(lost))}") from None
        except TimeoutError:
            raise Unreachable(self.address, operation, f"{endpoint}: {self._silent(link)}") from None
        finally:
            if link is not None:
                link.end("asked")
        texts = [part.decode() for part in _items(found) if isinstance(part, bytes)]
        if len(texts) != _ADDRESS_PARTS:
            why = words(found) if isinstance(found, Fault) else f"it knows of no primary {settings.service}"
            raise Unreachable(self.address, operation, f"{endpoint}: {why}")
        host, port = texts
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def _greeted(
        self, endpoint: str, operation: str, on_message: Callable[[Reply], None] | None = None
    ) -> tuple[Link, About]:
        settings, link, greeted = self.settings, None, False
        try:
            async with asyncio.timeout(settings.timeout_s):
                link = await self._connected(endpoint, operation, on_message)
                about = await self._hello(link, (settings.user, settings.password), endpoint, operation)
                if settings.db:
                    selected = await link.ask("SELECT", settings.db)
                    if isinstance(selected, Fault):
                        raise Refused(
                            self.address, operation, f"{endpoint}: there is no database {settings.db}: {selected.text}"
                        )
                greeted = True
                return link, about
        except Lost as lost:
            raise Unreachable(self.address, operation, f"{endpoint}: {lost}{self._hint(str(lost))}") from None
        except TimeoutError:
            raise Unreachable(self.address, operation, f"{endpoint}: {self._silent(link)}") from None
        finally:
            if link is not None and not greeted:
                link.end("not greeted")

    def _hint(self, lost: str) -> str:
        """A server that speaks TLS hangs up on whoever does not, or answers with bytes that nobody can read.

        One that asks for a certificate looks at it when we believe to be connected, and hangs up then; with a word about it,
        or without.
        """
        if self.settings.tls is not None:
            return f": {ASKS_FOR_CERTIFICATE}" if "lost" in lost else ""
        if not ("lost" in lost or "\\x15" in lost):
            return ""
        return f". Does that port speak TLS? Then write {ENCRYPTED[self._scheme]}://"

    def _silent(self, link: Link | None) -> str:
        """A server without TLS takes our greeting for a very long word, and waits for the end of it."""
        told = f"no answer within {self.settings.timeout_s:g} s"
        if self.settings.tls is None or link is not None:
            return told
        plain = next(plain for plain, encrypted in ENCRYPTED.items() if encrypted == self._scheme)
        return f"{told}. Does that port speak TLS? If not, write {plain}:// instead"

    @property
    def _scheme(self) -> str:
        return self.address.partition("://")[0]

    async def _connected(
        self, endpoint: str, operation: str, on_message: Callable[[Reply], None] | None = None
    ) -> Link:
        host, _, port = endpoint.rpartition(":")
        loop, tls = asyncio.get_running_loop(), self.settings.tls
        try:
            _, link = await loop.create_connection(lambda: Link(on_message), host.strip("[]"), int(port), ssl=tls)
        except (OSError, RuntimeError) as error:  # RuntimeError: no thread was left to look up the name.
            why = not_connected(error, encrypted=tls is not None)
            raise Unreachable(self.address, operation, f"{endpoint}: {why}") from None
        return link

    async def _hello(
        self, link: Link, login: tuple[str, str], endpoint: str, operation: str, *, sentinel: bool = False
    ) -> About:
        """Say who we are, and find out whom we speak to. One command does both, and everybody may send it."""
        user, password = login
        auth = ("AUTH", user or "default", password) if password else ()
        reply = await link.ask("HELLO", 2, *auth, "SETNAME", _NAME)
        if isinstance(reply, Fault):
            raise Refused(self.address, operation, f"{endpoint}: {words(reply)}")
        told = [part.decode("utf-8", "replace") if isinstance(part, bytes) else "" for part in _items(reply)]
        fields = dict(zip(told[::2], told[1::2], strict=False))
        about = About(endpoint, *(fields.get(name, "") for name in _HELLO_FIELDS))
        self._check(about, operation, sentinel=sentinel)
        return about

    def _check(self, about: About, operation: str, *, sentinel: bool) -> None:
        endpoint = about.endpoint
        if sentinel:
            if about.mode != "sentinel":
                rule = f"{endpoint}: that is no Sentinel: write {'redis' if self.settings.tls is None else 'rediss'}://"
                raise Refused(self.address, operation, rule)
            return
        if about.mode == "sentinel":
            raise Refused(
                self.address, operation, f"{endpoint}: that is a Sentinel: write redis+sentinel://h1,h2,h3/service"
            )
        if about.mode == "cluster":
            rule = "that is a Redis Cluster, which is not supported: use one primary, or redis+sentinel://"
            raise Refused(self.address, operation, f"{endpoint}: {rule}")
        if about.role != "master":
            rule = "that is a replica, which takes no writes: name its primary, or use redis+sentinel://"
            kind = Unreachable if self.settings.service else Refused  # Sentinels may be about to promote it.
            raise kind(self.address, operation, f"{endpoint}: {rule}")


def _items(reply: Reply) -> list[Reply]:
    return reply if isinstance(reply, list) else []

"""The link to a cluster: one connection to one member at a time, a token, a deadline for every attempt, and typed errors.

Rules of this file
1. A request is sent once. Only what was certainly not looked at is sent again: no connection, a refused token, a learner.
2. Every attempt has a deadline, which counts connecting and authenticating too. A member that misses one is left at
   once, with whatever else waits on the same connection; the next request goes to the next member.
3. An attempt that is cancelled leaves nothing behind but a stream that was reset. If the member had said nothing at all
   for a while, it is left as well: whoever cancelled may have had a deadline of its own, shorter than ours.
4. Connecting and authenticating are done once for all attempts, by tasks with deadlines of their own: an attempt only
   waits for them. What takes longer than one attempt has is not begun anew with each of them, and so comes to its end.
5. An answer of another cluster, or of an earlier time, ends the link: the engine was replaced or restored, and nothing
   that was learned from it holds any more.
"""

import asyncio
import os
import random
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tenure.clients.etcd import codec
from tenure.clients.etcd.connecting import Endpoint, Search
from tenure.clients.etcd.failures import auth_is_off, failure, leaves_member, wants_fresh_token, wants_other_member
from tenure.clients.etcd.http2 import Headers
from tenure.clients.etcd.messages import Header
from tenure.clients.etcd.stream import Lost, NotSent, Said
from tenure.clients.etcd.together import Together
from tenure.clients.etcd.transport import Connection
from tenure.errors import ConfigError, OutcomeUnknown, Refused, Unreachable

T = TypeVar("T")

# How long a member may be silent before a cancelled attempt leaves it: longer than a busy one takes, shorter than the
# deadlines that callers have.
_SILENT_S = 0.25
# After how long without a word from one member the next one is tried beside it, if calls have more time than that.
_NEXT_AFTER_MAX_S = 1.0
# A search for a member costs nobody anything who does not wait for it. A name server that does not answer is left for the
# next one after five seconds, as systems are shipped.
_CONNECT_MIN_S = 10.0


class Link:
    """What every request to a cluster goes over. Used on one event loop, between ``open`` and ``close``."""

    def __init__(  # noqa: PLR0913  (each is a setting of its own, by name)
        self,
        endpoints: Sequence[str],
        *,
        address: str,
        tls: ssl.SSLContext | None = None,
        user: str | None = None,
        password: str | None = None,
        call_timeout_s: float = 2.0,
    ) -> None:
        if not endpoints:
            raise ConfigError("endpoints", "", "must name at least one member of the cluster")
        self.address = address  # as a URL without secrets: it stands in every error
        self.call_timeout_s = call_timeout_s  # A store that needs its answers sooner makes this shorter.
        self._connect_within_s = max(_CONNECT_MIN_S, call_timeout_s)
        self.cluster_id = 0
        self.revision = 0  # the highest that a linearizable answer has shown
        self._endpoints = [Endpoint.of(text) for text in endpoints]
        # Many processes are given the same list: each begins elsewhere, so that no member serves them all.
        random.shuffle(self._endpoints)
        if tls is not None:
            tls.set_alpn_protocols(["h2"])  # Without it a server of gRPC hangs up.
        self._tls, self._user, self._password = tls, user, password or ""
        self._token: Headers | None = None if user else ()  # None: to be asked for
        self._connection: Connection | None = None
        self._connecting, self._authenticating = Together[Connection](), Together[Headers]()
        self._search: Search | None = None  # that is under way
        self._over = ""  # why nothing can be asked any more
        self._trouble = ""  # why there is no connection
        self._open = False
        self._pid = 0  # of the process that opened it; none has this number

    @property
    def endpoint(self) -> str:
        """The member that requests go to."""
        return str(self._endpoints[0])

    @property
    def has_user(self) -> bool:
        """Whether requests carry a token, which may grow old."""
        return bool(self._user)

    async def call(
        self,
        method: str,
        message: bytes,
        decode: Callable[[bytes], tuple[Header, T]],
        operation: str,
        floor: int | None = None,
    ) -> T:
        """Send one message and return what ``decode`` makes of its answer; ``floor`` as for ``heed``."""
        path = "/etcdserverpb." + method
        data = await self.attempt(operation, lambda connection, token: connection.call(path, token, message))
        try:
            header, answer = decode(data)
        except ValueError as error:
            raise OutcomeUnknown(self.address, operation, f"the answer cannot be read ({error})") from error
        self.heed(header, floor)
        if self._over:  # Whoever answered has carried it out; only what comes later is refused.
            raise OutcomeUnknown(self.address, operation, self._over)
        return answer

    async def attempt(
        self, operation: str, send: Callable[[Connection, Headers], Awaitable[T]], until_s: float | None = None
    ) -> T:
        """Do ``send`` on a live connection with a fresh token, within the deadline. Its errors become ours.

        The deadline is ``until_s``, a time of the event loop, for what was begun before; else a whole one from now.
        """
        sending = _Sending()
        try:
            async with asyncio.timeout(self.call_timeout_s) if until_s is None else asyncio.timeout_at(until_s):
                return await self._attempt(operation, send, sending)
        except TimeoutError:
            within = f"no answer within {self.call_timeout_s:g} s"
            if sending.connection is None:
                trouble = self._search.told(within) if self._search is not None else self._trouble
                raise Unreachable(self.address, operation, trouble or within) from None
            self.leave(sending.connection, within)
            raise OutcomeUnknown(self.address, operation, within) from None
        except asyncio.CancelledError:
            if sending.connection is not None and sending.silent_for_s() >= _SILENT_S:
                self.leave(sending.connection, "it was silent")
            raise

    def leave(self, connection: Connection, reason: str) -> None:
        """Abandon a connection; the next call goes to the next member."""
        if connection is self._connection:
            self._connection = None
            self._endpoints.append(self._endpoints.pop(0))
        connection.abort(reason)

    def heed(self, header: Header, floor: int | None = None) -> None:
        """Compare an answer with what is known of the cluster; ``floor`` is what a linearizable one may not fall below."""
        self.cluster_id = self.cluster_id or header.cluster_id
        if header.cluster_id not in (0, self.cluster_id):
            self._end(f"cluster {self.cluster_id:x} was replaced by cluster {header.cluster_id:x}")
        elif floor is not None and header.revision < floor:
            self._end(f"the cluster went back from revision {floor} to {header.revision}, as a restored snapshot does")
        elif floor is not None and header.revision > self.revision:
            self.revision = header.revision

    def _end(self, why: str) -> None:
        self._over = f"{why}: its tokens may repeat; make sure that no old leader runs, then start again"
        if self._connection is not None:
            self._connection.abort(self._over)

    def forget_token(self, token: Headers) -> None:
        """Ask for a new token before the next call, unless that was done already."""
        if self._user and self._token is token:
            self._token = None

    def check(self, operation: str) -> None:
        """Raise if no call can be made any more, or not here."""
        if self.is_forked:
            rule = f"was opened in process {self._pid}, of which this one is a fork: open it again after the fork"
            raise ConfigError("client", self.address, rule)
        if self._over or not self._open:
            raise Refused(self.address, operation, self._over or "the client is not open")

    @property
    def is_forked(self) -> bool:
        """Whether this process is a fork of the one that opened it.

        The connection, and what the system tells of it, are shared with that one: who hung up here would make it deaf there.
        """
        return self._pid not in (0, os.getpid())

    async def _attempt(
        self, operation: str, send: Callable[[Connection, Headers], Awaitable[T]], sending: "_Sending"
    ) -> T:
        trouble, may_refresh = "", True
        for _ in range(len(self._endpoints) + 2):
            sending.connection = None
            try:
                connection, token = await self._ready(operation)
            except NotSent as error:
                trouble = str(error)
                if self._trouble:
                    break  # Every member was tried.
                continue
            sending.begin(connection)
            try:
                return await send(connection, token)
            except NotSent as error:
                trouble = str(error)
                self.leave(connection, trouble)
            except Lost as error:
                self.leave(connection, str(error))
                raise OutcomeUnknown(self.address, operation, str(error)) from error
            except Said as said:
                trouble = said.text
                if may_refresh and self._user and wants_fresh_token(said):
                    may_refresh = False
                    self.forget_token(token)
                elif wants_other_member(said):
                    self.leave(connection, trouble)
                else:
                    if leaves_member(said):
                        self.leave(connection, trouble)
                    raise failure(said, self.address, operation) from said
        raise Unreachable(self.address, operation, trouble)

    def ready(self) -> tuple[Connection, Headers] | None:
        """Return what something can be sent over at once; None: it has to be made first."""
        connection, token = self._connection, self._token
        return None if connection is None or connection.closed or token is None else (connection, token)

    async def _ready(self, operation: str) -> tuple[Connection, Headers]:
        self.check(operation)
        if (ready := self.ready()) is not None:
            return ready
        connection = self._connection
        if connection is None or connection.closed:
            connection = await self._connecting.result(self._connect)
        if (token := self._token) is None:
            token = await self._authenticate(connection, operation)
        return connection, token

    async def _connect(self) -> Connection:
        if self._connection is not None:
            self.leave(self._connection, "it was lost")
        # Less than the whole, so that one attempt gets round to each of them.
        next_after_s = min(0.9 * self.call_timeout_s / len(self._endpoints), _NEXT_AFTER_MAX_S)
        self._search = Search(self._endpoints, self._tls)
        try:
            endpoint, self._connection = await self._search.first(next_after_s, self._connect_within_s)
        except NotSent as error:
            self._trouble = str(error)
            raise
        finally:
            self._search = None
        self._trouble = ""
        at = self._endpoints.index(endpoint)
        self._endpoints = self._endpoints[at:] + self._endpoints[:at]
        return self._connection

    async def _authenticate(self, connection: Connection, operation: str) -> Headers:
        """Ask for a token. The request that needs it was not sent yet, so every failure here is definite."""
        try:
            return await self._authenticating.result(lambda: self._ask_for_token(connection))
        except Said as said:
            error = failure(said, self.address, operation)
            if isinstance(error, Refused):
                raise error from said
            self.leave(connection, error.detail)
            raise NotSent(error.detail) from said

    async def _ask_for_token(self, connection: Connection) -> Headers:
        ask = codec.encode_authenticate(self._user or "", self._password)
        try:
            async with asyncio.timeout(self.call_timeout_s):
                header, token = codec.decode_token(await connection.call("/etcdserverpb.Auth/Authenticate", (), ask))
        except Said as said:
            if not auth_is_off(said):
                raise
            self._token = ()
            return self._token
        except (NotSent, Lost, ValueError) as error:
            self.leave(connection, str(error))
            raise NotSent(str(error)) from error
        except TimeoutError as error:
            self.leave(connection, "it gave no token")
            raise NotSent(f"no token within {self.call_timeout_s:g} s") from error
        self.heed(header)
        self._token = (("token", token),)
        return self._token


class _Sending:
    """How far an attempt has come: None until the request is handed to a connection."""

    __slots__ = ("_at_s", "connection")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self._at_s = 0.0

    def begin(self, connection: Connection) -> None:
        self.connection, self._at_s = connection, connection.loop.time()

    def silent_for_s(self) -> float:
        """Return for how long the peer has said nothing since; 0 if it has said anything."""
        assert self.connection is not None
        return self.connection.loop.time() - self._at_s if self.connection.heard_at_s < self._at_s else 0.0

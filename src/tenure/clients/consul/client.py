"""A client of Consul: keys, transactions, sessions, waits, and what an operator wants to know. Runs on asyncio.

Rules of this file
1. A request is sent once. Only what was certainly not looked at is sent again: no connection, a refused token.
2. Every request has a deadline. A server that misses one is left: the next request goes to the next one in the URL.
3. Whatever decides anything is asked with ``consistent``: without it a leader that was cut off, and does not know yet that
   there is another one, answers from its memory. Waits are not: they only say when to ask.
4. An index that goes back means that the engine was restored, or another one answers. What was known then holds no more.
"""

import asyncio
import json
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Self, TypeVar
from urllib.parse import quote

from tenure.clients.consul import failures
from tenure.clients.consul.failures import CONFLICT, NOT_FOUND, OK, Conflict, NoSessionThere, NotAllowed, failure
from tenure.clients.consul.messages import (
    About,
    Op,
    Pair,
    about_of,
    errors_of,
    pairs_of,
    read,
    reads_only,
    results_of,
    unchanged,
)
from tenure.clients.consul.settings import Settings
from tenure.clients.http import Answer, Http, Lost, NotSent
from tenure.errors import ConfigError, OutcomeUnknown, Refused, Unreachable

T = TypeVar("T")

_INDEX: Final = "x-consul-index"
# How long one wait is kept open. The engine makes up to a sixteenth more of it, so that not all of them end together.
_WAIT_S: Final = 10
_WAIT_MORE: Final = 1 / 16
# An agent takes 200 connections from one address as shipped, and turns the rest away: what a thousand elections ask for at
# once has to take turns. Those who wait are counted by whoever has them wait.
AT_ONCE: Final = 64
_CONSISTENT: Final = {"consistent": ""}
_CONNECT_PART: Final = 0.9
_SHORTEST_S: Final = 0.001
_NAMES: Final = {"ns": "Namespace", "partition": "Partition"}  # as a request has them, and as an operation has them
_UNREADABLE: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError)


class ConsulClient:
    """Calls Consul. Used on one event loop, between ``async with`` and its end."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.address = settings, settings.address
        self.call_timeout_s = settings.timeout_s
        self._http = Http(settings.tls)
        self._scheme = "http" if settings.tls is None else "https"
        self._endpoints = list(settings.endpoints)
        # Many processes are given the same list: each begins elsewhere, so that no server serves them all.
        random.shuffle(self._endpoints)
        self._token = settings.read_token()
        self._room = asyncio.Semaphore(AT_ONCE)

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.__aexit__()

    # Keys

    async def get(self, key: str, *, operation: str) -> Pair | None:
        """Return a key as the engine decides it. Not by its path, of which Consul leaves out empty parts."""
        token = self._token
        try:
            found = await self._get(key, operation)
        except NotAllowed:
            if not self._refresh(token):
                raise
        else:
            if found is not None or token == self._token:
                return found
        return await self._get(key, operation)  # With another token, which may see what the first one does not.

    async def _get(self, key: str, operation: str) -> Pair | None:
        try:
            found = await self.txn([read(key)], operation=operation)
        except Conflict:
            # A key that is not there and one that we may not read look alike, unless it is compared.
            with suppress(Conflict):
                await self.txn([unchanged(key, 1)], operation=operation)
            return None
        if not found:  # What we may not read is left out of the answer.
            denied = f"Permission denied: our token lacks permission key read on {key}"
            raise NotAllowed(self.address, operation, f"{denied}{failures.advice_on(denied)}")
        return found[0]

    async def changed(self, key: str, index: int) -> tuple[Pair | None, int]:
        """Return a key once it was written after ``index``, or a while has passed; and the index to go on from."""
        within_s = _WAIT_S * (1 + _WAIT_MORE) + self.call_timeout_s
        params = {"index": str(index), "wait": f"{_WAIT_S}s"}
        answer = await self._send("GET", _kv(key), "wait", params=params, within_s=within_s, expected=(OK, NOT_FOUND))
        now = _index(answer)
        pair = None if answer.status == NOT_FOUND else self._read(answer, "wait", lambda body: pairs_of(body)[0])
        return pair, now if now >= index else 0

    async def keys(self, prefix: str, *, operation: str) -> list[str]:
        """Return the names of all keys that begin with ``prefix``."""
        params = {"keys": "", **_CONSISTENT}
        answer = await self._ask("GET", _kv(prefix), operation, params=params, expected=(OK, NOT_FOUND))
        if answer.status == NOT_FOUND:
            return []
        return self._read(answer, operation, lambda body: [str(key) for key in json.loads(body)])

    async def delete(self, key: str, *, operation: str) -> None:
        """Delete a key. One that is gone already is fine."""
        await self._ask("DELETE", _kv(key), operation)

    async def txn(self, ops: Sequence[Op], *, operation: str) -> list[Pair]:
        """Carry out all operations or none, once. Raises Conflict if one of them is refused."""
        scope = {_NAMES[name]: value for name, value in self.settings.scope if name in _NAMES}
        body = [{"KV": {**op["KV"], **scope}} if "KV" in op else op for op in ops]
        params = _CONSISTENT if reads_only(ops) else {}
        answer = await self._ask("PUT", "/v1/txn", operation, params=params, body=body, expected=(OK, CONFLICT))
        if answer.status == OK:
            return self._read(answer, operation, results_of)
        conflict = Conflict(self._read(answer, operation, errors_of))
        refused = failures.refusal(conflict, self.address, operation)
        raise refused if refused is not None else conflict

    # Sessions

    async def create_session(self, name: str, ttl_ns: int, lock_delay_ns: int) -> str:
        """Make a session that ends with its ttl and nothing else. One whose answer is lost ends by itself."""
        fields = {
            "Name": name,
            "TTL": f"{-(-ttl_ns // 10**6)}ms",
            "LockDelay": f"{lock_delay_ns // 10**6}ms",
            "Behavior": "release",
            # As shipped a session also ends when the health check of its node fails: while its holder may be well, and
            # before its ttl, which a holder counts on.
            "Checks": [],
            "NodeChecks": [],
        }
        answer = await self._ask("PUT", "/v1/session/create", "create a session", body=fields)
        return self._read(answer, "create a session", lambda body: str(json.loads(body)["ID"]))

    async def renew_session(self, session: str) -> bool:
        """Prolong a session by its full ttl from now on. False: it is no more."""
        path = f"/v1/session/renew/{session}"
        answer = await self._ask("PUT", path, "renew a session", expected=(OK, NOT_FOUND))
        return answer.status == OK

    async def destroy_session(self, session: str) -> None:
        """End a session. One that is gone already is fine."""
        await self._ask("PUT", f"/v1/session/destroy/{session}", "destroy a session")

    # What an operator wants to know

    async def leader(self) -> str:
        """Return where the leader of the engine is, as the server that is asked knows it; empty: it knows of none."""
        answer = await self._ask("GET", "/v1/status/leader", "find the leader")
        return self._read(answer, "find the leader", lambda body: str(json.loads(body)))

    async def peers(self) -> list[str]:
        """Return the servers that decide."""
        answer = await self._ask("GET", "/v1/status/peers", "list servers")
        return self._read(answer, "list servers", lambda body: [str(peer) for peer in json.loads(body)])

    async def about(self) -> About:
        """Return what the agent that is asked says of itself."""
        answer = await self._ask("GET", "/v1/agent/self", "read a version")
        return self._read(answer, "read a version", lambda body: about_of(body, answer.headers.get("date", "")))

    # The way there

    async def _ask(  # noqa: PLR0913  (each is a part of the request, by name)
        self,
        method: str,
        path: str,
        operation: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        expected: tuple[int, ...] = (OK,),
    ) -> Answer:
        """Send a request as soon as there is room for it, all within ``call_timeout_s``."""
        ends_at_s = asyncio.get_running_loop().time() + self.call_timeout_s
        try:
            async with asyncio.timeout_at(ends_at_s):
                await self._room.acquire()
        except TimeoutError:
            why = f"{AT_ONCE} requests were under way already, and none of them ended in time"
            raise Unreachable(self.address, operation, why) from None
        try:
            within_s = ends_at_s - asyncio.get_running_loop().time()
            return await self._send(
                method, path, operation, params=params, body=body, within_s=within_s, expected=expected
            )
        finally:
            self._room.release()

    async def _send(  # noqa: PLR0913  (each is a part of the request, by name)
        self,
        method: str,
        path: str,
        operation: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        within_s: float,
        expected: tuple[int, ...] = (OK,),
    ) -> Answer:
        ends_at_s = asyncio.get_running_loop().time() + within_s
        may_refresh = bool(self.settings.token_file)
        told: dict[str, str] = {}
        while True:
            # Others may turn to another server meanwhile: each is tried once.
            endpoint, token = next(one for one in self._endpoints if one not in told), self._token
            try:
                answer = await self._http.ask(
                    method,
                    f"{self._scheme}://{endpoint}{path}",
                    within_s=max(_SHORTEST_S, ends_at_s - asyncio.get_running_loop().time()),
                    # Less than the whole, so that all can be tried, and what each of them did can be told.
                    connect_within_s=_CONNECT_PART * self.call_timeout_s / len(self._endpoints),
                    params={**(params or {}), **dict(self.settings.scope)},
                    headers={"X-Consul-Token": token} if token else {},
                    body=None if body is None else json.dumps(body).encode(),
                )
            except NotSent as error:
                self._leave(endpoint)
                told[endpoint] = error.why
                if len(told) == len(self._endpoints):
                    why = "; ".join(f"{where}: {words}" for where, words in sorted(told.items()))
                    raise Unreachable(self.address, operation, why) from error
                continue
            except Lost as error:
                self._leave(endpoint)
                raise OutcomeUnknown(self.address, operation, error.why) from error
            if may_refresh and failures.wants_fresh_token(answer) and self._refresh(token):
                may_refresh = False
                continue
            if answer.status in expected:
                return answer
            failed = failure(answer, self.address, operation, abroad="dc" in dict(self.settings.scope))
            # A server that leaves says the same as one of another datacentre: its neighbour may know better.
            if not isinstance(failed, Refused) or isinstance(failed, NoSessionThere):
                self._leave(endpoint)
            raise failed

    def _leave(self, endpoint: str) -> None:
        """Have the next request go to the next server."""
        if self._endpoints[0] == endpoint:
            self._endpoints.append(self._endpoints.pop(0))

    def _refresh(self, refused: str) -> bool:
        """Read the token's file again. False: what was refused is still in there."""
        try:
            self._token = self.settings.read_token()
        except ConfigError:
            return False
        return self._token != refused

    def _read(self, answer: Answer, operation: str, decode: Callable[[bytes], T]) -> T:
        try:
            return decode(answer.body)
        except _UNREADABLE as error:
            why = f"the answer cannot be read ({type(error).__name__}): is that a Consul?"
            raise OutcomeUnknown(self.address, operation, why) from error


def _kv(key: str) -> str:
    return f"/v1/kv/{quote(key, safe='/')}"


def _index(answer: Answer) -> int:
    """Return the index of an answer. One that is not there, or not positive, waits for nothing and is asked for anew."""
    text = answer.headers.get(_INDEX, "")
    return max(int(text), 1) if text.isascii() and text.isdigit() else 1

"""Requests to one API server. Objects are dicts, so that fields that we do not know are kept."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self

from tenure.clients.http import Answer, Http, Lost, NotSent, Silent
from tenure.clients.kubernetes.access import Access
from tenure.clients.kubernetes.failures import BUSY, UNAUTHORISED, failure
from tenure.errors import ConfigError, OutcomeUnknown, Refused, Unreachable

Object = dict[str, Any]

# At most so many requests are under way at once: five hundred elections that renew together would open five hundred
# connections, and an API server takes 400 requests at once from everybody. A watch has a connection of its own.
AT_ONCE: Final = 8
_OK: Final = (200, 201, 202)
# What an API server that turns us away without saying for how long is given.
_BUSY_S: Final = 1.0
# What any is given: one that says 0, or less, would be asked thousands of times a second.
_BUSY_MIN_S: Final = 0.1
_compact: Final = json.JSONEncoder(separators=(",", ":")).encode
_READING: Final = {"Accept": "application/json"}
_WRITING: Final = {**_READING, "Content-Type": "application/json"}


class KubernetesClient:
    """Asks one API server. Used on one event loop, between ``async with`` and its end."""

    def __init__(self, access: Access, *, address: str, timeout_s: float) -> None:
        self.access, self.address, self.timeout_s = access, address, timeout_s
        self.request_count = 0
        self._http = Http(access.tls, proxy=access.proxy, server_name=access.server_name)
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.__aexit__()

    async def get(
        self, path: str, *, operation: str, within_s: float | None = None, params: Mapping[str, str] | None = None
    ) -> Object:
        """Read an object, or a list of them, as the cluster decides it: never an API server's memory."""
        return await self.ask("GET", path, None, operation=operation, within_s=within_s, params=params)

    async def create(
        self,
        path: str,
        body: Object,
        *,
        operation: str,
        within_s: float | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Object:
        """Create an object in the collection at ``path``. Raises Conflict if it is there already."""
        return await self.ask("POST", path, body, operation=operation, within_s=within_s, params=params)

    async def replace(
        self,
        path: str,
        body: Object,
        *,
        operation: str,
        within_s: float | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Object:
        """Replace an object if it still has the version that ``body`` has. Raises Conflict or NotThere if not."""
        return await self.ask("PUT", path, body, operation=operation, within_s=within_s, params=params)

    async def ask(  # noqa: PLR0913  (each is a part of the request, by name)
        self,
        method: str,
        path: str,
        body: Object | None,
        *,
        operation: str,
        within_s: float | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Object:
        """Send one request, and return the object that it is answered with. Raises StoreError."""
        clock = asyncio.get_running_loop().time
        until_s = clock() + min(self.timeout_s, within_s if within_s is not None else self.timeout_s)
        text = None if body is None else _compact(body).encode()
        renewed = False
        while True:
            who = await self._who(operation, until_s)
            answer = await self._send(method, path, text, params, who, operation, until_s)
            if answer.status in _OK:
                return self._read(answer, operation)
            if answer.status == UNAUTHORISED and not renewed and await self._renewed(who, operation):
                renewed = True
                continue
            pause_s = _pause_s(answer)
            if answer.status == BUSY and clock() + pause_s < until_s:
                await asyncio.sleep(pause_s)
                continue
            raise failure(answer, self.address, operation)

    async def _send(  # noqa: PLR0913, PLR0917  (each is a part of the request)
        self,
        method: str,
        path: str,
        text: bytes | None,
        params: Mapping[str, str] | None,
        who: Mapping[str, str],
        operation: str,
        until_s: float,
    ) -> Answer:
        clock = asyncio.get_running_loop().time
        headers = {**who, **(_READING if text is None else _WRITING)}
        if self._turn.locked():
            try:
                async with asyncio.timeout_at(until_s):
                    await self._turn.acquire()
            except TimeoutError:
                raise Unreachable(self.address, operation, "too many requests were before this one") from None
        else:
            await self._turn.acquire()
        try:
            within_s = max(until_s - clock(), 0.001)
            self.request_count += 1
            return await self._http.ask(
                method,
                self.access.server + path,
                within_s=within_s,
                params=params,
                headers=headers,
                body=text,
                tls=self.access.credentials.tls,
            )
        except NotSent as error:
            raise Unreachable(self.address, operation, f"{self.access.server}: {error.why}") from error
        except Lost as error:
            raise OutcomeUnknown(self.address, operation, f"{self.access.server}: {_told(error)}") from error
        finally:
            self._turn.release()

    @asynccontextmanager
    async def stream(
        self, path: str, *, operation: str, idle_s: float, **params: str
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Ask for something that goes on and on, line by line. Raises StoreError, also inside the block."""
        who = await self._who(operation, asyncio.get_running_loop().time() + self.timeout_s)
        headers = {**who, **_READING}
        try:
            async with self._http.stream(
                self.access.server + path,
                within_s=self.timeout_s,
                idle_s=idle_s,
                params=params,
                headers=headers,
                tls=self.access.credentials.tls,
            ) as answer:
                self.request_count += 1
                if isinstance(answer, Answer):
                    if answer.status == UNAUTHORISED:
                        await self._renewed(who, operation)  # Who asks again does so with what is new.
                    raise failure(answer, self.address, operation)
                yield answer
        except NotSent as error:
            raise Unreachable(self.address, operation, f"{self.access.server}: {error.why}") from error
        except Lost as error:
            raise OutcomeUnknown(self.address, operation, f"{self.access.server}: {_told(error)}") from error

    async def _who(self, operation: str, until_s: float) -> Mapping[str, str]:
        """Return the headers that say who asks."""
        try:
            return await self.access.credentials.headers(until_s)
        except TimeoutError:
            detail = (
                "the exec plugin of the kubeconfig takes longer than a request may: give more by ?timeout=… in the URL"
            )
            raise Unreachable(self.address, operation, detail) from None
        except ConfigError as error:  # A store raises nothing but StoreError once it is open.
            raise Refused(self.address, operation, str(error)) from error

    async def _renewed(self, refused: Mapping[str, str], operation: str) -> bool:
        try:
            return await self.access.credentials.renew(refused)
        except ConfigError as error:
            raise Refused(self.address, operation, str(error)) from error

    def _read(self, answer: Answer, operation: str) -> Object:
        try:
            said = json.loads(answer.body)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise self.not_understood(operation)
        return said

    def named(self, thing: Object, name: str, operation: str) -> Object:
        """Return an object that was answered with, if it is the one of this name. Raises OutcomeUnknown if it cannot be."""
        metadata = part_of(thing, "metadata")
        if metadata.get("name") != name or not metadata.get("resourceVersion"):
            raise self.not_understood(operation)
        return thing

    def not_understood(self, operation: str) -> OutcomeUnknown:
        """Return what to raise for an answer that no API server gives to this."""
        detail = f"{self.access.server} answered, but not with an object as Kubernetes has it: is that an API server?"
        return OutcomeUnknown(self.address, operation, detail)


def part_of(thing: object, name: str) -> dict[str, Any]:
    """Return a part of an object that has parts itself; nothing, if that is not what stands there."""
    part = thing.get(name) if isinstance(thing, dict) else None
    return part if isinstance(part, dict) else {}


def _told(error: Lost) -> str:
    """Say what became of a request, and where to look if an API server that is there keeps its silence."""
    return f"{error.why}; kubectl get --raw /readyz says what it waits for" if isinstance(error, Silent) else error.why


def _pause_s(answer: Answer) -> float:
    try:
        return max(_BUSY_MIN_S, float(answer.headers.get("retry-after", "")))
    except ValueError:
        return _BUSY_S

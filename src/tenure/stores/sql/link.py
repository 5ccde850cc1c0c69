"""One connection to whichever server takes writes, with a deadline for every call. Runs on asyncio.

Rules of this file
1. One thing at a time goes over the connection, and is brought to its end, also if its caller does not wait for it: a release
   that overtook a claim on its way would leave an office behind that nobody knows of.
2. A connection on which an answer was lost is never used again: the answer to the last question would be taken for that to the
   next one.
3. What was not sent is told from what was sent and not answered.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from tenure.errors import OutcomeUnknown, Refused, StoreError, Unreachable
from tenure.stores.turns import Turns

_CLOSE_S: Final = 1.0
_CONNECT_PARTS: Final = 2  # A server that does not answer must leave time for the next one.


class Session(Protocol):
    """One connection."""

    @property
    def broken(self) -> bool:
        """Whether it is known to be of no more use."""
        ...

    def abort(self) -> None:
        """End it without waiting for anything."""
        ...

    async def close(self) -> None:
        """End it in order."""
        ...


C = TypeVar("C", bound=Session)
T = TypeVar("T")


class Fault(NamedTuple):
    """What an error of the driver means."""

    kind: type[StoreError]
    detail: str
    ends_session: bool = False


class Connector(ABC, Generic[C]):
    """How to reach one server."""

    product: str
    faults: tuple[type[Exception], ...]  # whatever the driver may raise

    @abstractmethod
    async def connect(self, endpoint: str) -> C:
        """Connect to a server, and make sure that it takes writes. Raises one of ``faults``, or Refused."""

    @abstractmethod
    def fault_of(self, error: Exception, *, sent: bool) -> Fault:
        """Say what such an error means; ``sent``: it came after a statement was sent."""


class Link(Generic[C]):
    """The connection of one store. Used on one event loop."""

    def __init__(self, address: str, endpoints: Sequence[str], connector: Connector[C]) -> None:
        self._address, self._endpoints, self._connector = address, list(endpoints), connector
        self._session: C | None = None
        self._one_at_a_time = asyncio.Lock()
        self._asking_count = 0  # who has the connection, and who waits for it
        self._is_closed = False
        self._turns = Turns()

    async def run(self, operation: str, work: Callable[[C], Awaitable[T]], within_s: float) -> T:
        """Do something with the connection, to its end; who is cancelled stops waiting for it and no more."""
        until_s = asyncio.get_running_loop().time() + within_s
        return await self._turns.through(self._run(operation, work, until_s, within_s))

    async def endpoint(self, operation: str, within_s: float) -> str:
        """Return which server takes our writes, once one does."""

        async def nothing(_: C) -> None:
            pass

        await self.run(operation, nothing, within_s)
        return self._endpoints[0]

    async def close(self) -> None:
        """Wait for what is under way, each of which has a deadline, and end the connection. There will be no other."""
        await self._turns.all_ended()
        self._is_closed = True
        session, self._session = self._session, None
        if session is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_S):
                await session.close()
        except self._connector.faults:  # which a TimeoutError is one of
            session.abort()

    async def _run(self, operation: str, work: Callable[[C], Awaitable[T]], until_s: float, within_s: float) -> T:
        self._asking_count += 1
        try:
            if self._asking_count > 1:
                await self._wait_for_turn(operation, until_s, within_s)
            else:  # Nothing is waited for, and a deadline would be a tenth of all that a call takes here.
                await self._one_at_a_time.acquire()
            try:
                return await self._carry_out(operation, work, until_s, within_s)
            finally:
                self._one_at_a_time.release()
        finally:
            self._asking_count -= 1

    async def _wait_for_turn(self, operation: str, until_s: float, within_s: float) -> None:
        try:
            async with asyncio.timeout_at(until_s):
                await self._one_at_a_time.acquire()
        except TimeoutError:
            detail = f"the requests before it took all of the {within_s:.3g} s that it had"
            raise Unreachable(self._address, operation, detail) from None

    async def _carry_out(self, operation: str, work: Callable[[C], Awaitable[T]], until_s: float, within_s: float) -> T:
        session = self._session
        if session is None or session.broken:
            session = await self._connected(operation, until_s)
        try:
            async with asyncio.timeout_at(until_s):
                return await work(session)
        except TimeoutError:
            self._drop()
            # The next search begins with another server, if there is one.
            self._endpoints.append(self._endpoints.pop(0))
            raise OutcomeUnknown(self._address, operation, f"no answer within {within_s:.3g} s") from None
        except self._connector.faults as error:
            fault = self._connector.fault_of(error, sent=True)
            if fault.ends_session or session.broken:
                self._drop()
            raise fault.kind(self._address, operation, fault.detail) from None

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.abort()

    async def _connected(self, operation: str, until_s: float) -> C:
        if self._is_closed:  # Nobody would end the connection.
            raise Unreachable(self._address, operation, "the store was closed")
        self._drop()
        errors: list[StoreError] = []
        for endpoint in list(self._endpoints):
            try:
                self._session = await self._try(endpoint, operation, until_s)
            except StoreError as error:
                errors.append(error)
                continue
            # The next search begins where the last one ended.
            self._endpoints.remove(endpoint)
            self._endpoints.insert(0, endpoint)
            return self._session
        # A standby that refuses us says nothing of a primary that is not reached.
        kind = Refused if all(isinstance(error, Refused) for error in errors) else Unreachable
        raise kind(self._address, operation, "; ".join(error.detail for error in errors))

    async def _try(self, endpoint: str, operation: str, until_s: float) -> C:
        left_s = until_s - asyncio.get_running_loop().time()
        alone = len(self._endpoints) == 1
        try:
            async with asyncio.timeout(left_s if alone else left_s / _CONNECT_PARTS):
                return await self._connector.connect(endpoint)
        except TimeoutError:
            silent = f"does not answer as {self._connector.product} does: is it one, and does it run?"
            raise Unreachable(self._address, operation, f"{endpoint} {silent}") from None
        except StoreError as error:
            raise type(error)(self._address, operation, f"{endpoint} {error.detail}") from None
        except self._connector.faults as error:
            fault = self._connector.fault_of(error, sent=False)
            raise fault.kind(self._address, operation, f"{endpoint} {fault.detail}") from None

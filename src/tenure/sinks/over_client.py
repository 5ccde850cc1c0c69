"""What sinks have in common that are reached by a client of ours: it is opened and closed here, or was given and is not."""

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from tenure.sinks.base import Verify
from tenure.sinks.judging import JudgingSink


class _Client(AbstractAsyncContextManager[Any], Protocol):
    @property
    def address(self) -> str: ...


C = TypeVar("C", bound=_Client)


class ClientSink(JudgingSink, Generic[C]):
    """A sink whose fences are kept under names that begin with ``fences``."""

    kind: str

    def __init__(self, client: C, *, owns: bool, fences: str, verify: Verify | None) -> None:
        super().__init__(verify)
        self._fences = fences
        self._client, self._owns = client, owns

    def __repr__(self) -> str:
        return f"<{self.kind} sink {self._client.address}>"

    async def __aenter__(self) -> Self:
        if self._owns:
            await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns:
            await self._client.__aexit__(kind, error, trace)

"""Objects in Kubernetes as a sink: each carries its fence, and is replaced only at the version that was looked at. Runs on asyncio.

Kubernetes writes one object at a time, so a fence is a part of every object that it guards: the annotation ``tenure/token`` has
the highest token seen, and ``tenure/fence`` says of which fence. A write reads the object, compares, and replaces it at the
version that it has read. A successor's seal changes the version, so whatever an older leader sends afterwards finds another
one, however long it was on its way; it looks again, and finds the larger token.

The token also travels with each request, as its field manager ``tenure:TOKEN``. That is what the policy wants to see which
``tenure fence kubernetes`` prints; with it, the API server itself refuses what does not come through a sink.
"""

import asyncio
import random
from collections.abc import Callable
from copy import deepcopy
from hashlib import blake2b
from types import TracebackType
from typing import Any, Final, Self

from tenure.clients.kubernetes import Conflict, KubernetesClient, NotThere, settings_of
from tenure.clients.kubernetes.client import Object
from tenure.clients.kubernetes.resources import Resource, resource_of
from tenure.errors import ConfigError, Refused, StaleToken, UnverifiedToken
from tenure.model import TOKEN_MAX, Token
from tenure.sinks.base import Bound, Verify
from tenure.sinks.verifying import confirmed

TOKEN: Final = "tenure/token"
FENCE: Final = "tenure/fence"
MANAGER: Final = "tenure:"
# Each try that fails is another write that came between: a seal, or what a controller does to the object all day.
_TRIES_MAX: Final = 50
_PAUSE_MAX_S: Final = 0.05
_PLACE: Final = "{fence}"
_DIGITS_BYTES: Final = 8

Change = Callable[[Object], None]


class BoundKubernetes:
    """A sink as one tenure may use it. Fails with StaleToken once that tenure has been succeeded."""

    __slots__ = ("_sink", "_term")

    def __init__(self, sink: "KubernetesSink", term: Bound) -> None:
        self._sink, self._term = sink, term

    async def update(self, name: str, change: Change) -> Object:
        """Have ``change`` alter an object of the sink, write it, and return it as it is then.

        ``name`` is as it was given to the sink. ``change`` is called with a copy of the object, and again with another one
        if somebody wrote meanwhile. It must not touch the annotations of tenure.
        """
        return await self._sink.update(self._term, name, change)


class KubernetesSink:
    """Objects that refuse writes of a leader that was succeeded: ``async with KubernetesSink(url, "configmaps/books") as sink``.

    ``url`` is one as for ``open_store``; its namespace is where the objects are. Each object is named by its resource and its
    name, as in ``deployments.apps/web`` for kubectl. All of them are sealed; a ConfigMap that is not there is made then, and
    any other must be there. Elections that share a sink need an object each: ``{fence}`` in a name stands for one of them.
    With ``verify``, a token higher than any seen is confirmed by it first.

    Fences only what is written through it: see ``tenure fence kubernetes`` for the rest. Does not promise to know a write
    whose answer was lost: that raises OutcomeUnknown, and may have been carried out.
    """

    def __init__(self, url: str, *objects: str, verify: Verify | None = None, **options: str) -> None:
        if not objects:
            raise ConfigError("objects", "none", "must name what is written to, such as configmaps/books")
        self.verify = verify
        self._settings = settings_of(url, **options)
        self._resources = {name: resource_of(name) for name in objects}
        for name, resource in self._resources.items():
            if not resource.name:
                raise ConfigError("objects", name, f"must name one object, such as {name}/books")
        self._client = KubernetesClient(
            self._settings.access, address=self._settings.address, timeout_s=self._settings.timeout_s
        )

    def __repr__(self) -> str:
        return f"<kubernetes sink {self._settings.address} {' '.join(self._resources)}>"

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    def bind(self, term: Bound) -> BoundKubernetes:
        """Return the sink as ``term`` may use it. It fails once that tenure has been succeeded."""
        return BoundKubernetes(self, term)

    async def update(self, term: Bound, name: str, change: Change) -> Object:
        """Have ``change`` alter an object under ``term``. Raises StaleToken, and changes nothing, if a larger token was here."""
        if name not in self._resources:
            raise ConfigError("object", name, f"is none of the sink's, which are {', '.join(self._resources)}")
        return await self._write("write", name, term.fence, _checked(term.token), change)

    async def seal(self, fence: str, token: Token) -> None:
        """Raise the fence of every object to ``token`` (see ``Sink``)."""
        for name in self._resources:
            await self._write("seal", name, fence, _checked(token), None)

    async def _write(self, operation: str, name: str, fence: str, token: Token, change: Change | None) -> Object:
        resource = self._resources[name]
        called = resource.name.replace(_PLACE, _digits(fence))
        for _ in range(_TRIES_MAX):
            found = await self._find(operation, resource, called)
            highest = self._highest(operation, name, fence, found)
            if highest > token:
                raise StaleToken(token, highest)
            if change is None and found is not None and highest == token:
                return found
            if highest < token and self.verify is not None and not await confirmed(self.verify, fence, token):
                raise UnverifiedToken(token, highest)
            body = _made(called) if found is None else deepcopy(found)
            if change is not None:
                change(body)
            body["metadata"]["annotations"] = {
                **(body["metadata"].get("annotations") or {}),
                TOKEN: str(token),
                FENCE: fence,
            }
            written = await self._put(operation, resource, body, token, new=found is None)
            if written is not None:
                return written
            await asyncio.sleep(random.uniform(0, _PAUSE_MAX_S))
        detail = f"{name} changed with each of {_TRIES_MAX} tries, and nothing was written: try again"
        raise Refused(self._settings.address, operation, detail)

    async def _find(self, operation: str, resource: Resource, called: str) -> Object | None:
        try:
            return await self._client.get(resource.path(self._settings.namespace, called), operation=operation)
        except NotThere:
            if resource.is_config_map:
                return None
            raise

    async def _put(self, operation: str, resource: Resource, body: Object, token: Token, *, new: bool) -> Object | None:
        """Write an object. None: somebody came between."""
        namespace, params = self._settings.namespace, {"fieldManager": f"{MANAGER}{token}"}
        try:
            if new:
                return await self._client.create(resource.path(namespace), body, operation=operation, params=params)
            path = resource.path(namespace, body["metadata"]["name"])
            return await self._client.replace(path, body, operation=operation, params=params)
        except Conflict:
            return None
        except NotThere:
            if new:
                raise  # It is the namespace that is not there.
            return None

    def _highest(self, operation: str, name: str, fence: str, found: Object | None) -> int:
        """Return the highest token that an object has seen; 0: none."""
        annotations: dict[str, Any] = (found or {}).get("metadata", {}).get("annotations") or {}
        of = annotations.get(FENCE, fence)
        if of != fence:
            detail = f"{name} belongs to the fence {of!r}, not {fence!r}: give each election an object of its own"
            raise Refused(self._settings.address, operation, detail)
        said = str(annotations.get(TOKEN, "0"))
        if not said.isdecimal():
            detail = f"the annotation {TOKEN} of {name} is {said[:40]!r}, where a number must be: mend it"
            raise Refused(self._settings.address, operation, detail)
        return int(said)


def _made(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def _digits(fence: str) -> str:
    """Return what stands for a fence in a name, which may have fewer characters than a fence."""
    return blake2b(fence.encode("utf-8", "surrogateescape"), digest_size=_DIGITS_BYTES).hexdigest()


def _checked(token: int) -> Token:
    if not 1 <= token <= TOKEN_MAX:
        raise ConfigError("token", token, f"must lie between 1 and {TOKEN_MAX}")
    return Token(token)

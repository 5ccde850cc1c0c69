"""Objects in Kubernetes as a sink: each carries its fence, and is replaced only at the version that was looked at. Runs on asyncio.

Kubernetes writes one object at a time, so a fence is a part of every object that it guards: the annotation ``tenure/token`` has
the highest token seen, and ``tenure/fence`` says of which fence. A write reads the object, compares, and replaces it at the
version that it has read. A successor's seal changes the version, so whatever an older leader sends afterwards finds another
one, however long it was on its way; it looks again, and finds the larger token.

The fence goes with its object. So only a seal makes what is not there, and only a seal marks what carries no token: if a write
did, somebody's ``kubectl delete``, or ``kubectl replace`` with a file that has no annotations, would let a leader write that
was succeeded long ago.

The token also travels with each request, as its field manager ``tenure:TOKEN``. That is what the policy wants to see which
``tenure fence kubernetes`` prints; with it, the API server itself refuses what does not come through a sink.
"""

import asyncio
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from hashlib import blake2b
from types import TracebackType
from typing import Final, Self

from tenure.clients.kubernetes import Conflict, KubernetesClient, NotThere, settings_of
from tenure.clients.kubernetes.client import Object, part_of
from tenure.clients.kubernetes.resources import Resource
from tenure.errors import ConfigError, Refused
from tenure.model import TOKEN_MAX, Token
from tenure.model import token as checked
from tenure.sinks.base import Bound, Verify
from tenure.sinks.judging import JudgingSink
from tenure.sinks.kubernetes_policy import fenceable

TOKEN: Final = "tenure/token"
FENCE: Final = "tenure/fence"
MANAGER: Final = "tenure:"
# Each try that fails is another write that came between: a seal, or what a controller does to the object all day.
_TRIES_MAX: Final = 50
_PAUSE_MAX_S: Final = 0.05
_PLACE: Final = "{fence}"
_DIGITS_BYTES: Final = 8
# As many digits as TOKEN_MAX has. Python itself refuses to read a number of some thousands of them.
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
# What says which object of which version is replaced. A change that builds the object anew has none of it, and without a
# version the API server would replace whatever is there, a successor's fence included.
_OWN: Final = ("name", "namespace", "uid", "resourceVersion")
# What the client advises whoever has no rights, which is right for elections only.
_ELECTIONS_ONLY: Final = "; apply what tenure doctor --rbac prints, or ask for these rights"

Change = Callable[[Object], None]


class BoundKubernetes:
    """A sink as one tenure may use it. Fails with StaleToken once that tenure has been succeeded."""

    __slots__ = ("_sink", "_term")

    def __init__(self, sink: "KubernetesSink", term: Bound) -> None:
        self._sink, self._term = sink, term

    async def update(self, name: str, change: Change) -> Object:
        """Have ``change`` alter an object of the sink, write it, and return it as it is then.

        ``name`` is as it was given to the sink. ``change`` is called with a copy of the object, and again with another one
        if somebody wrote meanwhile. It may build the object anew; its name and the annotations of tenure stay as they are.
        An object that is not there is Refused, and so is one without a token: its fence is gone, and the next seal makes it anew.
        """
        return await self._sink.update(self._term, name, change)


class KubernetesSink(JudgingSink):
    """Objects that refuse writes of a leader that was succeeded: ``async with KubernetesSink(url, "configmaps/books") as sink``.

    ``url`` is one as for ``open_store``; its namespace is where the objects are. Each object is named by its resource and its
    name in full, as in ``deployments.apps/web``. All of them are sealed; a ConfigMap that is not there is made then, and
    any other must be there. Elections that share a sink need an object each: ``{fence}`` in a name stands for one of them.
    With ``verify``, a token higher than any seen is confirmed by it first.

    Fences only what is written through it: see ``tenure fence kubernetes`` for the rest. Does not promise to know a write
    whose answer was lost: that raises OutcomeUnknown, and may have been carried out.
    """

    def __init__(self, url: str, *objects: str, verify: Verify | None = None, **options: str) -> None:
        if not objects:
            raise ConfigError("objects", "none", "must name what is written to, such as configmaps/books")
        super().__init__(verify)
        self._settings = settings_of(url, **options)
        self._objects = objects
        for name in objects:
            if not _resource(name, "").name:
                raise ConfigError("objects", name, f"must name one object, such as {name}/books")
        self._client = KubernetesClient(
            self._settings.access, address=self._settings.address, timeout_s=self._settings.timeout_s
        )

    def __repr__(self) -> str:
        return f"<kubernetes sink {self._settings.address} {' '.join(self._objects)}>"

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
        if name not in self._objects:
            raise ConfigError("object", name, f"is none of the sink's, which are {', '.join(self._objects)}")
        return await self._write("write", name, term.fence, checked(term.token), change)

    async def seal(self, fence: str, token: Token) -> None:
        """Raise the fence of every object to ``token`` (see ``Sink``)."""
        for name in self._objects:
            await self._write("seal", name, fence, checked(token), None)

    async def _write(self, operation: str, name: str, fence: str, token: Token, change: Change | None) -> Object:
        resource = _resource(name, fence)
        for _ in range(_TRIES_MAX):
            found = await self._find(operation, resource, new=change is None)
            highest = self._highest(operation, name, fence, found)
            if change is not None and not highest:
                detail = f"{name} has lost its fence, the annotation {TOKEN}, or was never sealed: seal it first"
                raise Refused(self._settings.address, operation, detail)
            await self.judge(fence, token, highest)
            if change is None and found is not None and highest == token:
                return found
            body = _made(resource.name) if found is None else deepcopy(found)
            if change is not None:
                change(body)
            self._mark(operation, name, body, found, {TOKEN: str(token), FENCE: fence})
            written = await self._put(operation, resource, body, token, new=found is None)
            if written is not None:
                return written
            await asyncio.sleep(random.uniform(0, _PAUSE_MAX_S))
        detail = f"{name} changed with each of {_TRIES_MAX} tries, and nothing was written: try again"
        raise Refused(self._settings.address, operation, detail)

    async def _find(self, operation: str, resource: Resource, *, new: bool) -> Object | None:
        """Read an object. None: it is not there, and may be made."""
        try:
            with self._rights_of(resource):
                path = resource.path(self._settings.namespace, resource.name)
                found = await self._client.get(path, operation=operation)
                return self._client.named(found, resource.name, operation)
        except NotThere as error:
            if not resource.is_config_map:
                raise
            if new:
                return None
            detail = (
                f"{error.detail}: it was deleted, and its fence is gone with it, or was never sealed: seal it first"
            )
            raise Refused(self._settings.address, operation, detail) from error

    def _mark(self, operation: str, name: str, body: Object, found: Object | None, marks: dict[str, str]) -> None:
        """Give an object its annotations, and what says which one it is and of which version, whatever was changed."""
        metadata = body.get("metadata")
        annotations = metadata.get("annotations") or {} if isinstance(metadata, dict) else None
        if not isinstance(metadata, dict) or not isinstance(annotations, dict):
            detail = f"{name} was changed into something without metadata: leave them there, or write them as Kubernetes has them"
            raise Refused(self._settings.address, operation, detail)
        if found is not None:
            metadata.update({key: found["metadata"][key] for key in _OWN if key in found["metadata"]})
        metadata["annotations"] = annotations | marks

    async def _put(self, operation: str, resource: Resource, body: Object, token: Token, *, new: bool) -> Object | None:
        """Write an object. None: somebody came between."""
        namespace, params = self._settings.namespace, {"fieldManager": f"{MANAGER}{token}"}
        try:
            with self._rights_of(resource):
                if new:
                    return await self._client.create(resource.path(namespace), body, operation=operation, params=params)
                path = resource.path(namespace, resource.name)
                return await self._client.replace(path, body, operation=operation, params=params)
        except Conflict:
            return None
        except NotThere:
            if new:
                raise  # It is the namespace that is not there.
            return None

    @contextmanager
    def _rights_of(self, resource: Resource) -> Iterator[None]:
        """Have whoever may not do it told which rights a sink needs."""
        try:
            yield
        except Refused as error:
            if _ELECTIONS_ONLY not in error.detail:
                raise
            verbs = "get, create and update" if resource.is_config_map else "get and update"
            needed = (
                f"; a sink needs the right to {verbs} {resource.plural} in the namespace {self._settings.namespace}"
            )
            raise Refused(error.store, error.operation, error.detail.replace(_ELECTIONS_ONLY, needed)) from error

    def _highest(self, operation: str, name: str, fence: str, found: Object | None) -> int:
        """Return the highest token that an object has seen; 0: none."""
        annotations = part_of(part_of(found, "metadata"), "annotations")
        of = annotations.get(FENCE, fence)
        if of != fence:
            detail = f"{name} belongs to the fence {of!r}, not {fence!r}: give each election an object of its own"
            raise Refused(self._settings.address, operation, detail)
        said = str(annotations.get(TOKEN, "0"))
        if not _NUMBER.fullmatch(said) or int(said) > TOKEN_MAX:
            detail = (
                f"the annotation {TOKEN} of {name} is {said[:40]!r}, where a number up to {TOKEN_MAX} must be: mend it"
            )
            raise Refused(self._settings.address, operation, detail)
        return int(said)


def _resource(name: str, fence: str) -> Resource:
    """Return the object that stands under a name for one fence."""
    return fenceable(name.replace(_PLACE, _digits(fence)))


def _made(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def _digits(fence: str) -> str:
    """Return what stands for a fence in a name, which may have fewer characters than a fence."""
    return blake2b(fence.encode("utf-8", "surrogateescape"), digest_size=_DIGITS_BYTES).hexdigest()

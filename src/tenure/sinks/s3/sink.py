"""Objects in a bucket as a sink: compare the manifest, put the data, swap the manifest. boto3 runs in worker threads."""

import random
import threading
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from anyio import to_thread

from tenure.errors import ConfigError, OutcomeUnknown, Refused, TenureError
from tenure.model import Token
from tenure.model import token as checked
from tenure.sinks.base import Bound, Verify
from tenure.sinks.judging import JudgingSink
from tenure.sinks.s3.bucket import Bucket, connect_to
from tenure.sinks.s3.draft import Change, Content, Draft
from tenure.sinks.s3.manifest import MANIFEST_MAX_BYTES, written

_WITHIN_S: Final = 30.0
_PAUSE_S: Final = 0.02
_NAME_MAX: Final = 512
_READS_MAX: Final = 20


class BoundS3:
    """A prefix as one tenure may use it. Fails with StaleToken once that tenure has been succeeded.

    boto3 is waited for in a worker thread. Cancellation waits until the call has ended, so that it took place or not when
    the caller goes on; which of both, the caller finds out by looking.
    """

    __slots__ = ("_sink", "_term")

    def __init__(self, sink: "S3Sink", term: Bound) -> None:
        self._sink, self._term = sink, term

    async def put(self, name: str, content: bytes) -> None:
        """Write one object."""
        await self.put_all({name: content})

    async def delete(self, name: str) -> None:
        """Delete one object. Deleting what is not there changes nothing."""
        await self.put_all({name: None})

    async def put_all(self, contents: Mapping[str, bytes | None]) -> None:
        """Write several objects, and delete those without content, in one step: all of it counts or nothing."""
        await self._sink.write(self._term, contents)

    async def update(self, name: str, change: Change) -> None:
        """Write what ``change`` makes of an object's content. It is called again if somebody else wrote meanwhile."""
        await self._sink.write(self._term, {name: change})


class S3Sink(JudgingSink):
    """A prefix of a bucket that refuses writes of a leader that was succeeded, by the S3 API's conditional puts.

    Objects are read by ``get``, under the names that they were put with. Their data lies below ``<prefix>.tenure/``, under keys
    that no reader can guess: only the manifest there says which data counts, and is what is compared and swapped. Made for up to
    some thousands of objects and a few writes a second. ``client`` is a boto3 client of your own; without one, boto3
    finds its credentials as it always does. With ``verify``, a token higher than any seen is confirmed by it first.

    A server that ignores ``If-Match`` or ``If-None-Match`` is found out before the first write, and refused. Fences only what
    is written through it. A writer that was killed may leave data behind that nothing refers to.
    """

    def __init__(  # noqa: PLR0913  (options, each with a default)
        self,
        bucket: str,
        prefix: str = "",
        *,
        client: Any = None,
        endpoint_url: str | None = None,
        verify: Verify | None = None,
        within_s: float = _WITHIN_S,
    ) -> None:
        if not bucket:
            raise ConfigError("bucket", "''", "must have a name")
        if prefix and not prefix.endswith("/"):
            raise ConfigError("prefix", prefix, "must end with a slash, or be empty")
        super().__init__(verify)
        self._within_s = within_s
        self.bucket = Bucket(bucket, prefix, connect_to(endpoint_url) if client is None else lambda: client)
        # Threads of this process take turns: they would only beat each other to the manifest.
        self._turn = threading.Lock()

    def __repr__(self) -> str:
        return f"<{self.bucket.name}>"

    def bind(self, term: Bound) -> BoundS3:
        """Return the prefix as ``term`` may use it. It fails once that tenure has been succeeded."""
        return BoundS3(self, term)

    async def get(self, name: str) -> bytes | None:
        """Return an object's content, or None if there is none. It may be replaced the next moment."""
        return await to_thread.run_sync(self._get, name, abandon_on_cancel=True)

    async def names(self) -> list[str]:
        """Return the names of all objects."""
        return sorted((await to_thread.run_sync(self.bucket.look, "read", abandon_on_cancel=True)).manifest.objects)

    async def seal(self, fence: str, token: Token) -> None:
        """Raise the fence of the whole prefix to ``token``, in one step (see ``Sink``)."""
        await self._carried_out(_Work(_named(fence), checked(token), {}, "seal"))

    async def write(self, term: Bound, contents: Mapping[str, Content]) -> None:
        """Change objects under ``term``, all in one step."""
        for name in contents:
            if not 0 < len(name) <= _NAME_MAX:
                raise ConfigError("name", repr(name)[:_NAME_MAX], f"must be a text of 1 to {_NAME_MAX} characters")
        await self._carried_out(_Work(_named(term.fence), checked(term.token), contents, "write"))

    async def _carried_out(self, work: "_Work") -> None:
        # A seal is abandoned if it is cancelled: a late one harms nobody, and a leader that is over must not wait.
        abandon = work.operation == "seal"

        async def attempt(known_only: bool) -> None:
            await to_thread.run_sync(self._change, work, known_only, abandon_on_cancel=abandon)

        await self.admitted(work.fence, work.token, attempt)

    def _get(self, name: str) -> bytes | None:
        for _ in range(_READS_MAX):
            key = self.bucket.look("read").manifest.objects.get(name)
            content = None if key is None else self.bucket.content(key)
            if key is None or content is not None:
                return content
            # A later write has replaced it between the two requests.
        raise Refused(self.bucket.name, "read", f"the data of {name} is gone, though the manifest names it")

    def _change(self, work: "_Work", known_only: bool) -> None:
        until = time.monotonic() + self._within_s
        draft = Draft(self.bucket)
        while True:
            with self._turn:
                if self._tried(work, draft, known_only):
                    return
            if time.monotonic() >= until:
                draft.drop()
                raise Refused(self.bucket.name, work.operation, f"others were quicker for {self._within_s:g} s")
            time.sleep(random.uniform(0, _PAUSE_S))

    def _tried(self, work: "_Work", draft: Draft, known_only: bool) -> bool:
        """Try once; False: somebody else has swapped the manifest meanwhile, and nothing was written."""
        try:
            seen = self.bucket.look(work.operation)
            after = seen.manifest.admit(work.fence, work.token, known_only=known_only)
            if not work.contents and after is seen.manifest:
                return True
            objects = draft.put(work.contents, seen.manifest)
            after = after.changed(objects).signed()
            size = len(written(after))
            if size > MANIFEST_MAX_BYTES:
                raise ConfigError("prefix", f"{len(after.objects)} objects", "has too many: use several prefixes")
            landed = self.bucket.swapped(seen, after, work.operation)
        except OutcomeUnknown:
            raise  # The data may count by now, so it stays.
        except TenureError:
            draft.drop()
            raise
        if landed:
            replaced = [seen.manifest.objects.get(name) for name in work.contents]
            draft.remove(replaced)
        return landed


class _Work(NamedTuple):
    """What is to be done, under which token."""

    fence: str
    token: Token
    contents: Mapping[str, Content]
    operation: str


def _named(fence: str) -> str:
    if not fence or "\0" in fence:
        raise ConfigError("fence", repr(fence), "must have a name, without a NUL in it")
    return fence

"""Requests to a bucket, and what became of each. Blocks: boto3 has no other way.

Rules of this file
1. A conditional put that came to nothing (412, or 409 where others were at it) is ``Beaten``; one without an answer is ``Lost``.
2. A client of the user's may repeat what had no answer, and tells of its last try only. So what it says of a write that it has
   repeated, or may have, is no proof that nothing was written: ``Lost``.
3. Who cannot be sure that a swap has not landed says OutcomeUnknown: on any other error the data of the write is removed.
4. Credentials are boto3's own business: nothing of them is kept or shown here.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final, NamedTuple

from tenure.errors import ConfigError, OutcomeUnknown, Refused, StoreError, Unreachable
from tenure.sinks.s3.manifest import Manifest, Rubbish, read, written

_CONNECT_S, _READ_S = 5, 20
_MANIFEST, _PROBE, _DATA = "manifest.json", "probe", "data/"
_BEATEN: Final = {409, 412}
_NOBODYS_ETAG: Final = '"00000000000000000000000000000000"'
_SERVER_ERROR: Final = 500
_TOO_MANY: Final = 429
_TRIES_MAX: Final = 3


class Beaten(Exception):
    """The condition did not hold: nothing was written."""


class Lost(Exception):
    """No answer came: it may have been written, or may still be. ``error`` says so."""

    def __init__(self, error: OutcomeUnknown) -> None:
        self.error = error
        super().__init__(str(error))


class Seen(NamedTuple):
    """A manifest, and the ETag by which it can be swapped; None: there is none yet."""

    manifest: Manifest
    etag: str | None


class Bucket:
    """One prefix of one bucket. Any number of threads may use it."""

    def __init__(self, bucket: str, prefix: str, connect: Callable[[], Any]) -> None:
        self._bucket, self._own = bucket, f"{prefix}.tenure/"
        self.name = f"s3 sink {bucket}/{prefix}"
        self._connect, self._lock = connect, Lock()
        self._client: Any = None
        self._is_probed = False

    def look(self, operation: str) -> Seen:
        """Read the manifest. Raises Refused for one that somebody edited into rubbish."""
        with self._asking(operation, writes=False) as client:
            try:
                answer = client.get_object(Bucket=self._bucket, Key=f"{self._own}{_MANIFEST}")
                text, etag = answer["Body"].read(), answer["ETag"]
            except client.exceptions.NoSuchKey:
                return Seen(Manifest(), None)
        try:
            return Seen(read(text), etag)
        except Rubbish as error:
            detail = f"{self._own}{_MANIFEST} was edited: {error}. Mend it, and nothing is written until then"
            raise Refused(self.name, operation, detail) from error

    def swapped(self, seen: Seen, after: Manifest, operation: str) -> bool:
        """Put ``after`` in the place of what was seen; False: somebody else was quicker, and nothing was written or ever will be.

        A lost answer is looked up. Raises OutcomeUnknown if that is not answered either, or does not tell any more.
        """
        self.probe(operation)
        body = written(after)
        unknown: OutcomeUnknown | None = None
        for _ in range(_TRIES_MAX):
            try:
                self._put(_MANIFEST, body, seen.etag, operation)
            except Beaten as beaten:
                # By an earlier try of this very write, perhaps: ours here, or one that a client of the user's repeats.
                unknown = unknown or OutcomeUnknown(self.name, operation, str(beaten))
            except Lost as lost:
                unknown = lost.error
            except StoreError as error:
                if unknown is None:
                    raise
                raise unknown from error  # This try came to nothing. The one before may still be on its way.
            else:
                return True
            found = self._look_back(unknown, operation)
            if after.writes[-1] in found.manifest.writes:
                return True
            if found.etag != seen.etag:
                if not found.manifest.shows_all_since(seen.manifest):
                    raise unknown  # It may have landed, and been forgotten since.
                return False  # And it can never land: no two manifests have the same ETag.
        assert unknown is not None, "whoever gets here was beaten, or lost an answer"
        raise unknown

    def _look_back(self, unknown: OutcomeUnknown, operation: str) -> Seen:
        try:
            return self.look(operation)
        except StoreError as error:
            raise unknown from error

    def add(self, content: bytes) -> str:
        """Put new data, under a key that nobody has used; returns that key."""
        for _ in range(_TRIES_MAX):
            key = f"{_DATA}{secrets.token_hex(16)}"
            try:
                self._put(key, content, None, "write")
            except Beaten:
                continue  # By ourselves: a client of the user's repeats what had no answer. Another key is the sure way.
            except Lost as lost:
                # Whether or not it is there: nothing refers to it.
                raise Unreachable(self.name, "write", lost.error.detail) from lost
            return key
        raise Refused(self.name, "write", "new data was refused again and again as if it were there already")

    def content(self, key: str) -> bytes | None:
        """Return data, or None if a later write has removed it."""
        with self._asking("read", writes=False) as client:
            try:
                found: bytes = client.get_object(Bucket=self._bucket, Key=f"{self._own}{key}")["Body"].read()
            except client.exceptions.NoSuchKey:
                return None
        return found

    def remove(self, key: str) -> None:
        """Delete data that nothing refers to any more. What cannot be deleted now is left behind, and costs only room."""
        try:
            with self._asking("tidy", writes=True) as client:
                client.delete_object(Bucket=self._bucket, Key=f"{self._own}{key}")
        except (StoreError, Lost, Beaten):
            return

    def probe(self, operation: str) -> None:
        """Make sure, once, that this server honours conditions: many that speak the API ignore them, and say 200."""
        if self._is_probed:
            return
        self._lands(None, operation)  # After this there is something in the way, whoever put it there.
        for etag, header in ((None, "If-None-Match"), (_NOBODYS_ETAG, "If-Match")):
            if self._lands(etag, operation):
                detail = f"this server ignores {header}, so two leaders could overwrite each other: it cannot be fenced"
                raise Refused(self.name, operation, detail)
        self._is_probed = True

    def _lands(self, etag: str | None, operation: str) -> bool:
        try:
            self._put(_PROBE, b"written to learn whether conditions are honoured here", etag, operation)
        except Beaten:
            return False
        except Lost as lost:
            raise Unreachable(self.name, operation, lost.error.detail) from lost
        return True

    def _put(self, key: str, body: bytes, etag: str | None, operation: str) -> None:
        condition = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}
        with self._asking(operation, writes=True) as client:
            client.put_object(Bucket=self._bucket, Key=f"{self._own}{key}", Body=body, **condition)

    @contextmanager
    def _asking(self, operation: str, *, writes: bool) -> Iterator[Any]:
        """Give the client, and say in our words what goes wrong with it."""
        from botocore import exceptions  # noqa: PLC0415  (an extra: only who uses it has it)

        try:
            yield self._opened()
        except exceptions.ClientError as error:
            raise self._told(error.response, operation, writes=writes) from error
        except (exceptions.EndpointConnectionError, exceptions.ConnectTimeoutError, exceptions.SSLError) as error:
            if writes and _repeats(self._client):
                raise Lost(OutcomeUnknown(self.name, operation, str(error))) from error
            raise Unreachable(self.name, operation, str(error)) from error
        except (exceptions.NoCredentialsError, exceptions.ParamValidationError, exceptions.NoRegionError) as error:
            raise Refused(self.name, operation, str(error)) from error
        except (exceptions.BotoCoreError, OSError) as error:
            if writes:
                raise Lost(OutcomeUnknown(self.name, operation, str(error))) from error
            raise Unreachable(self.name, operation, str(error)) from error

    def _told(self, answer: Any, operation: str, *, writes: bool) -> Exception:
        about = answer.get("ResponseMetadata", {})
        status = about.get("HTTPStatusCode", 0)
        detail = f"{answer.get('Error', {}).get('Code', status)}: {answer.get('Error', {}).get('Message', '')}"
        if writes and status in _BEATEN:
            return Beaten(detail)
        if status >= _SERVER_ERROR or status == _TOO_MANY or (writes and about.get("RetryAttempts")):
            unknown = OutcomeUnknown(self.name, operation, detail)
            return Lost(unknown) if writes else Unreachable(self.name, operation, detail)
        return Refused(self.name, operation, detail)

    def _opened(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client


def _repeats(client: Any) -> bool:
    """Whether a client may repeat a request by itself. Whoever does not say so may."""
    retries = getattr(getattr(getattr(client, "meta", None), "config", None), "retries", None) or {}
    return retries.get("total_max_attempts") != 1


def connect_to(endpoint_url: str | None) -> Callable[[], Any]:
    """Return how a client of our own is made: no repeats behind our back, and limits on how long it waits."""

    def connect() -> Any:
        try:
            import boto3  # noqa: PLC0415  (an extra: only who uses it has it)
            from botocore.config import Config  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError("S3Sink", "boto3", "must be installed: pip install 'tenure[s3]'") from error
        limits = Config(connect_timeout=_CONNECT_S, read_timeout=_READ_S, retries={"total_max_attempts": 1})
        return boto3.client("s3", endpoint_url=endpoint_url, config=limits)

    return connect

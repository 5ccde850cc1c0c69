"""A service behind ``tenure.web`` as a sink: the seal over HTTP, and a bound client that needs no other library."""

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from anyio import to_thread

from tenure.errors import ConfigError, OutcomeUnknown, Refused, Unreachable
from tenure.model import Token
from tenure.sinks.base import Bound
from tenure.sinks.http.capped import BODY_MAX_BYTES, TOO_LARGE, CappedAnswer
from tenure.sinks.http.header import NAME, Presented
from tenure.sinks.http.refusing import error_in
from tenure.sinks.http.signing import Signing, signer_of
from tenure.sinks.http.stamp import Stamp, origin_of, without_secrets
from tenure.sinks.refusals import Refusals

SEAL_PATH: Final = "/.well-known/tenure/seal"
_TIMEOUT_S: Final = 15.0  # More than a service waits, by default, for older requests to end.
_NO_CONTENT: Final = 204


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a service said, other than that a token is refused."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes


class _Request(NamedTuple):
    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = {}
    operation: str = "request"


class BoundHttp:
    """A service as one tenure may use it. Fails with StaleToken once that tenure has been succeeded."""

    __slots__ = ("_sink", "_term")

    def __init__(self, sink: "HttpSink", term: Bound) -> None:
        self._sink, self._term = sink, term

    async def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        """Make one request in a worker thread. It is sent once, and redirects are answers.

        Raises TenureOver before anything is sent if the tenure is over, StaleToken or UnverifiedToken if the service refused
        the token, Unreachable if nothing was sent, and OutcomeUnknown if no answer came. Cancelled, it is abandoned: the
        service may have carried it out, or may still.
        """
        return await self._sink.ask(self._term, _Request(method, path, body, headers or {}))


class HttpSink:
    """A service whose writes are guarded by ``tenure.web``: ``Election.lead(…, sinks=[HttpSink(url)])`` seals it.

    ``url`` is where the service is; a path in it stands before every other. ``secret`` signs what is presented: a
    secret that the service shares, or a ``JwtSigner``. What ``verify=`` is elsewhere is an option of the service's own side.

    Does not promise that a request which passed the check before the seal has not still been at work then in another
    process of the service: the seal waits for those of the process that it reaches. See ``tenure.web``.
    """

    def __init__(
        self,
        url: str,
        *,
        secret: Signing | None = None,
        seal_path: str = SEAL_PATH,
        timeout_s: float = _TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._scheme, self._host, self._port = origin_of(url)  # before anything else: it refuses what is no URL
        split = urlsplit(url)
        if "@" in url or split.query or split.fragment:
            rule = "must not have a user, a query or a fragment; write an @ of its path as %40"
            raise ConfigError("url", without_secrets(url), rule)
        self._base, self._seal_path, self._timeout_s = split.path.rstrip("/"), seal_path, timeout_s
        self._signer = signer_of(secret)
        self._tls = tls or (ssl.create_default_context() if self._scheme == "https" else None)
        self.origin = f"{self._scheme}://{split.netloc}"
        self.refused = Refusals(type(self).__name__)

    def __repr__(self) -> str:
        return f"<http sink {self.origin}{self._base}>"

    def bind(self, term: Bound) -> BoundHttp:
        """Return the service as ``term`` may use it. It fails once that tenure has been succeeded."""
        return BoundHttp(self, term)

    async def seal(self, fence: str, token: Token) -> None:
        """Raise the service's mark to ``token``, and wait for its older requests under way (see ``Sink``)."""
        answer = await self.ask(Presented(token, fence), _Request("POST", self._seal_path, operation="seal"))
        if answer.status != _NO_CONTENT:
            detail = f"it answered {answer.status} at {self._seal_path}: is tenure.web in front of it?"
            raise Refused(self.origin, "seal", detail)

    async def ask(self, term: Bound, request: _Request) -> HttpAnswer:
        """Send one request with the header of ``term``, and raise what its answer means if the token is refused."""
        value = Stamp(term, self.origin, self._signer).value_for(self.origin)
        assert value is not None, "a sink's own origin is the one that it was stamped for"
        answer = await to_thread.run_sync(self._send, request, value, abandon_on_cancel=True)
        operation = request.operation
        error = error_in(answer.status, answer.headers, service=self.origin, operation=operation, token=term.token)
        if error is not None:
            with self.refused.counting(term.fence):
                raise error
        return answer

    def _send(self, request: _Request, value: str) -> HttpAnswer:
        link, operation = self._link(), request.operation
        try:
            try:
                link.connect()
            except OSError as error:
                raise Unreachable(self.origin, operation, str(error)) from error
            try:
                if not self._is_sent(link, request, value):
                    path = request.path.partition("?")[0].partition("#")[0]
                    rule = "cannot be sent: its method, its path or a header of it has what HTTP does not allow there"
                    raise ConfigError("request", ascii(path), rule)
                with link.getresponse() as answer:
                    found = answer.read(BODY_MAX_BYTES + 1)
            except (OSError, ValueError, http.client.HTTPException) as error:
                detail = str(error) or type(error).__name__
                raise OutcomeUnknown(self.origin, operation, detail) from error
            if len(found) > BODY_MAX_BYTES:
                raise OutcomeUnknown(self.origin, operation, TOO_LARGE)
            if answer.length:  # A read with a limit does not say so itself.
                raise OutcomeUnknown(self.origin, operation, f"the answer was cut short by {answer.length} bytes")
            return HttpAnswer(answer.status, answer.headers, found)
        finally:
            link.close()

    def _is_sent(self, link: http.client.HTTPConnection, request: _Request, value: str) -> bool:
        """Send a request; False if there is no way to, and then nothing was sent."""
        headers = {**request.headers, NAME: value}
        try:
            link.request(request.method, f"{self._base}{request.path}", request.body, headers)
        except (ValueError, http.client.InvalidURL):
            # Neither its words nor itself go into what is raised: it repeats headers and queries, which may be secret.
            return False
        return True

    def _link(self) -> http.client.HTTPConnection:
        link = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        if self._scheme == "https":
            link = http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout_s, context=self._tls)
        link.response_class = CappedAnswer
        return link

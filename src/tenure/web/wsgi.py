"""The guard in front of a WSGI application."""

from collections.abc import Callable, Iterable, Iterator
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tenure.errors import ConfigError, StaleToken, StoreError, UnverifiedToken
from tenure.sinks.http.header import HIGHEST, Presented
from tenure.sinks.http.refusing import Refusal, refusal_of
from tenure.sinks.marks import Mark, admit_now
from tenure.web.guard import Guard, unfit
from tenure.web.routes import Route, paths_of

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_KEY = "HTTP_TENURE_TOKEN"
_DRAIN_MAX_BYTES = 2**16
_LENGTH_DIGITS_MAX = 18  # Python refuses to read a number of some thousand digits.


class FencedWSGI:
    """Lets guarded requests through to ``app`` only if their token is not stale, and answers seals.

    The handler finds what was presented in ``environ["tenure"]``, to bind a database's sink to it: that makes check and
    write one step, which this cannot. A StaleToken that such a sink raises becomes the same answer, 409, if the
    application had not answered yet.
    """

    def __init__(self, app: "WSGIApplication", guard: Guard) -> None:
        if not hasattr(guard.mark, "blocks"):
            raise ConfigError("mark", type(guard.mark).__name__, "must be a Mark that can be asked without await")
        self._app, self._guard = app, guard
        self._mark = cast("Mark", guard.mark)

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        guard, method = self._guard, environ["REQUEST_METHOD"]
        paths = paths_of(_text(environ.get("SCRIPT_NAME", "")), _text(environ.get("PATH_INFO", "")))
        if guard.is_seal(method, paths):
            return self._seal(environ, start_response)
        route = guard.route_of(method, paths)
        if route is None:
            return self._app(environ, start_response)
        passed = route if isinstance(route, Refusal) else self._pass(route, environ, start_response)
        # No longer under way if it is a refusal: a seal need not wait until whoever was refused has sent all of its body.
        return answer(environ, start_response, passed) if isinstance(passed, Refusal) else passed

    def _pass(self, route: Route, environ: "WSGIEnvironment", start_response: "StartResponse") -> "_Parts | Refusal":
        presented = self._guard.judge(_values(environ), route)
        if isinstance(presented, Refusal):
            return presented
        request = _Request(environ, _Begun(start_response), presented)
        self._guard.underway.begin(presented.fence, presented.token)
        handed_over = False
        try:
            refusal = self._admit(presented)
            if refusal is not None:
                return refusal
            environ["tenure"] = presented
            try:
                parts = self._app(environ, request.begun)
            except (StaleToken, UnverifiedToken) as error:
                return request.refusal_of(error)
            handed_over = True
            return _Parts(parts, self._guard, request)
        finally:
            if not handed_over:
                self._guard.underway.end(presented.fence, presented.token)

    def _admit(self, presented: Presented) -> Refusal | None:
        guard = self._guard
        try:
            with guard.refused.counting(presented.fence):
                admit_now(self._mark, presented.fence, presented.token, guard.verify)
        except (StaleToken, UnverifiedToken) as error:
            return refusal_of(error)
        except ConfigError as error:
            return unfit(error)
        except StoreError as error:
            return Refusal("unavailable", str(error))
        return None

    def _seal(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        presented = self._guard.judge(_values(environ), None)
        if isinstance(presented, Refusal):
            return answer(environ, start_response, presented)
        refusal = self._admit(presented)
        if refusal is None and not self._settled(presented):
            refusal = Refusal("busy", f"waited {self._guard.seal_within_s:g} s", presented.token)
        if refusal is not None:
            return answer(environ, start_response, refusal)
        start_response("204 No Content", [(HIGHEST, str(presented.token))])
        return []

    def _settled(self, presented: Presented) -> bool:
        """Wait until no request with an older token is under way in this process."""
        guard, over = self._guard, Event()
        tell = over.set
        if guard.underway.wait(presented.fence, presented.token, tell):
            return True
        try:
            return over.wait(guard.seal_within_s)
        finally:
            guard.underway.forget(tell)


class _Begun:
    """Notes whether the application has begun to answer."""

    def __init__(self, start_response: "StartResponse") -> None:
        self._start, self.value = start_response, False

    def __call__(self, *args: Any) -> Callable[[bytes], object]:
        self.value = True
        return self._start(*args)


class _Request(NamedTuple):
    """A request that the application has been handed."""

    environ: "WSGIEnvironment"
    begun: _Begun
    presented: Presented

    def refusal_of(self, error: StaleToken | UnverifiedToken) -> Refusal:
        """Return what the application's error means; raises it if the answer has begun, or if it is about another token."""
        if self.begun.value or error.token != self.presented.token:
            raise error
        return refusal_of(error)


class _Parts:
    """An answer whose request is under way until the server has closed it, as servers must."""

    def __init__(self, parts: Iterable[bytes], guard: Guard, request: _Request) -> None:
        self._parts, self._guard, self._request = parts, guard, request
        self._is_open = True

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._parts
        except (StaleToken, UnverifiedToken) as error:
            # An application that is a generator does all of its work here.
            refusal = self._request.refusal_of(error)
        else:
            return
        self._end()
        yield from answer(self._request.environ, self._request.begun, refusal)

    def close(self) -> None:
        try:
            close = getattr(self._parts, "close", None)
            if close is not None:
                close()
        finally:
            self._end()

    def _end(self) -> None:
        if self._is_open:
            self._is_open = False
            self._guard.underway.end(self._request.presented.fence, self._request.presented.token)


def _text(path: str) -> str:
    return path.encode("latin-1").decode("utf-8", "replace")


def _values(environ: "WSGIEnvironment") -> list[str]:
    value = environ.get(_KEY)
    return [] if value is None else [value]


def answer(environ: "WSGIEnvironment", start_response: "StartResponse", refusal: Refusal) -> list[bytes]:
    """Say no, once what is left of the request has been read."""
    # A server that closes a connection with something unread in it resets it, and the client never sees the answer.
    length = environ.get("CONTENT_LENGTH") or ""
    if length.isdecimal() and len(length) <= _LENGTH_DIGITS_MAX:
        environ["wsgi.input"].read(min(int(length), _DRAIN_MAX_BYTES))
    elif length:
        refusal = Refusal("malformed", f"its Content-Length is no number of at most {_LENGTH_DIGITS_MAX} digits")
    body = refusal.body
    headers = [*refusal.headers, ("Content-Length", str(len(body)))]
    start_response(refusal.status_line, headers)
    return [body]

"""Hooks for HTTP clients, so that every request of a leader carries its token. None of the clients is a dependency.

How each keeps the header from other origins when it follows a redirect (all three copy headers that they do not know to
wherever they are sent):
- httpx asks its event hooks before every hop, and an ``httpx.Auth`` only before the first. So ours is an event hook.
- aiohttp sends every hop through its middlewares, with the headers of the caller and not with those that one added.
- requests copies the request of the hop before, and calls the hooks of that with its answer first. It asks nobody about the
  copy that it sends, and where that goes it works out by rules of its own, which are not those of ``urljoin``. So ours takes
  the header out unless the redirect is spelt so plainly that nobody can read it in two ways.
"""

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

from tenure.sinks.base import Bound
from tenure.sinks.http.header import NAME
from tenure.sinks.http.signing import Signing
from tenure.sinks.http.stamp import Stamp

if TYPE_CHECKING:
    import aiohttp
    import httpx
    import requests
    from requests.auth import AuthBase

AiohttpHandler = Callable[["aiohttp.ClientRequest"], Awaitable["aiohttp.ClientResponse"]]
AiohttpMiddleware = Callable[["aiohttp.ClientRequest", AiohttpHandler], Awaitable["aiohttp.ClientResponse"]]

# requests reads ////h/x and http:////h/x as http://h/x, and what it drops from a text (tabs, NULs, blanks) can make such a
# text of another one. So what is plain is listed: a host of letters and digits, and no path that begins with two slashes.
_REST: Final = r"[A-Za-z0-9._~!$&'()*+,;=:@%/?#-]*"
_PLAIN_URL: Final = rf"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{{1,5}})?(?:/{_REST})?"
_PLAIN_PATH: Final = rf"/(?!/){_REST}|[A-Za-z0-9._~-]+(?:[/?]{_REST})?|\?{_REST}"
_PLAIN: Final = re.compile(f"{_PLAIN_URL}|{_PLAIN_PATH}")


def fence_httpx(
    client: "httpx.Client | httpx.AsyncClient", term: Bound, origin: str, *, secret: Signing | None = None
) -> None:
    """Let every request of an httpx client to ``origin`` carry the token of ``term``; other origins never get it.

    ``secret`` signs it: one that the service shares, or a ``JwtSigner``. Raises TenureOver in place of sending once the tenure is
    over. Bind a client once: it belongs to one tenure.
    """
    import httpx  # noqa: PLC0415  (only who uses it needs it)

    stamp = Stamp(term, origin, secret)

    def hook(request: httpx.Request) -> None:
        request.headers.pop(NAME, None)  # of the hop before
        # Its parts, by which it connects: the text of an URL whose host is empty can read as that of another host.
        value = stamp.value_for(f"{request.url.scheme}://{request.url.netloc.decode('ascii')}")
        if value is not None:
            request.headers[NAME] = value

    async def async_hook(request: httpx.Request) -> None:
        hook(request)

    hooks = client.event_hooks
    hooks["request"] = [*hooks["request"], async_hook if isinstance(client, httpx.AsyncClient) else hook]
    client.event_hooks = hooks


def aiohttp_middleware(term: Bound, origin: str, *, secret: Signing | None = None) -> AiohttpMiddleware:
    """Return a middleware for ``aiohttp.ClientSession(middlewares=[…])``, from aiohttp 3.12 on. See ``fence_httpx``."""
    stamp = Stamp(term, origin, secret)

    async def middleware(request: "aiohttp.ClientRequest", handler: AiohttpHandler) -> "aiohttp.ClientResponse":
        request.headers.pop(NAME, None)
        value = stamp.value_for(str(request.url))
        if value is not None:
            request.headers[NAME] = value
        return await handler(request)

    return middleware


def requests_auth(term: Bound, origin: str, *, secret: Signing | None = None) -> "AuthBase":
    """Return an ``auth=`` for requests, for one call or for a session. See ``fence_httpx``.

    A redirect carries the token along only if its ``Location`` is plain ASCII that can be read in one way. Any other is
    followed without it, so the service answers that it is missing.
    """
    from requests.auth import AuthBase  # noqa: PLC0415  (only who uses it needs it)

    stamp = Stamp(term, origin, secret)

    def stamped(request: "requests.PreparedRequest", url: str) -> None:
        request.headers.pop(NAME, None)
        value = stamp.value_for(url)
        if value is not None:
            request.headers[NAME] = value

    def on_answer(answer: "requests.Response", *_: Any, **__: Any) -> None:
        if answer.is_redirect:
            stamped(answer.request, _target(str(answer.url), answer.headers["Location"]))

    class TenureAuth(AuthBase):
        def __call__(self, request: "requests.PreparedRequest") -> "requests.PreparedRequest":
            stamped(request, str(request.url))
            request.register_hook("response", on_answer)
            return request

    return TenureAuth()


def _target(url: str, location: str) -> str:
    """Return where a redirect leads, or nothing if that is not plain, as it is written or as it comes out."""
    if _PLAIN.fullmatch(location) is None:
        return ""
    try:
        found = urljoin(url, location)
    except ValueError:  # It is no URL; requests says so itself.
        return ""
    return found if re.fullmatch(_PLAIN_URL, found) else ""

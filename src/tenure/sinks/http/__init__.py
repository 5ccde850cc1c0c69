"""The leader's side of fenced HTTP services: what its requests carry, and the seal. ``tenure.web`` is the other side.

``HttpSink``                                              seals a service, and makes requests with nothing but Python
``fence_httpx``, ``aiohttp_middleware``, ``requests_auth``  the same for clients that you have
``JwtSigner``, ``JwtKey``                                 signatures as JSON web tokens, in place of a ``Secret``
"""

from tenure.sinks.http.header import Presented
from tenure.sinks.http.hooks import aiohttp_middleware, fence_httpx, requests_auth
from tenure.sinks.http.jwt_signing import JwtKey, JwtSigner
from tenure.sinks.http.refusing import error_in
from tenure.sinks.http.signing import Secret
from tenure.sinks.http.sink import BoundHttp, HttpAnswer, HttpSink

__all__ = [
    "BoundHttp",
    "HttpAnswer",
    "HttpSink",
    "JwtKey",
    "JwtSigner",
    "Presented",
    "Secret",
    "aiohttp_middleware",
    "error_in",
    "fence_httpx",
    "requests_auth",
]

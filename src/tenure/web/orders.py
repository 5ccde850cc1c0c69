"""The HTTP face of a worker: a WSGI application, which any server of that kind can serve (``serving`` does with Python alone).

POST /orders                    a delivery, with a Tenure-Token header; answered by a receipt
GET  /orders                    what is in force by id and token, and how long ago a leader was heard; no payloads
POST /.well-known/tenure/seal   raises the mark
"""

import json
from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from tenure.apps.control.channels import PATH
from tenure.apps.control.order import DELIVERY_BYTES_MAX, Delivery, NotTaken
from tenure.apps.control.worker import Worker
from tenure.errors import ConfigError, StoreError
from tenure.sinks.base import Verify
from tenure.sinks.http.jwt_signing import JwtKey
from tenure.sinks.http.refusing import Refusal
from tenure.sinks.http.signing import Secret
from tenure.web.guard import Guard
from tenure.web.routes import FenceRule, Route
from tenure.web.wsgi import FencedWSGI, answer

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

_LENGTH_DIGITS_MAX: Final = 9


class OrdersWSGI:
    """Lets leaders give orders to ``worker``: those of ``fence``, which is a name or a function that says whether one of that name counts.

    ``secrets``, ``keys`` and ``verify`` are those of ``Guard``: without any, whoever can connect can give orders.
    """

    def __init__(
        self,
        worker: Worker,
        fence: FenceRule,
        *,
        secrets: Iterable[str | bytes | Secret] | None = None,
        keys: Iterable[JwtKey] | None = None,
        verify: Verify | None = None,
    ) -> None:
        self._worker = worker
        self.guard = Guard([Route(PATH, fence)], worker, secrets=secrets, keys=keys, verify=verify)
        self._fenced = FencedWSGI(self._answer, self.guard)

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        return self._fenced(environ, start_response)

    def _answer(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
        if path != PATH or method not in {"GET", "POST"}:
            return _page(start_response, "404 Not Found", b"{}")
        if method == "GET":
            return self._status(start_response)
        length = environ.get("CONTENT_LENGTH") or ""
        refused = _refusal_of(length)
        if (
            refused is not None
        ):  # Nothing is read: who sends in parts, or waits to be told to go on, may send nothing for long.
            return _problem(start_response, *refused)
        body = environ["wsgi.input"].read(int(length))
        try:
            receipt = self._worker.take(environ["tenure"], Delivery.from_json(body))
        except (ConfigError, NotTaken) as error:
            return _problem(start_response, HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        except StoreError as error:
            return answer({}, start_response, Refusal("unavailable", str(error)))
        return _page(start_response, "200 OK", receipt.to_json())

    def _status(self, start_response: "StartResponse") -> Iterable[bytes]:
        try:
            orders, staleness_s = self._worker.orders(), dict(self._worker.staleness_s())
        except StoreError as error:
            return answer({}, start_response, Refusal("unavailable", str(error)))
        shown = [{"id": order.id, "token": str(order.token), "fence": order.fence} for order in orders]
        return _page(start_response, "200 OK", json.dumps({"orders": shown, "staleness_s": staleness_s}).encode())


def _refusal_of(length: str) -> tuple[HTTPStatus, str] | None:
    if not length:
        return HTTPStatus.LENGTH_REQUIRED, "must say how long it is, by a Content-Length"
    if not length.isascii() or not length.isdecimal():
        return HTTPStatus.BAD_REQUEST, "its Content-Length is no number"
    if len(length) > _LENGTH_DIGITS_MAX or int(length) > DELIVERY_BYTES_MAX:
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {DELIVERY_BYTES_MAX} bytes"
    return None


def _problem(start_response: "StartResponse", status: HTTPStatus, detail: str) -> Iterable[bytes]:
    # Without the header of a fence that refuses: the token was good.
    return _page(start_response, f"{status.value} {status.phrase}", json.dumps({"detail": detail}).encode())


def _page(start_response: "StartResponse", status: str, body: bytes) -> Iterable[bytes]:
    headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store"), ("Content-Length", str(len(body)))]
    start_response(status, headers)
    return [body]

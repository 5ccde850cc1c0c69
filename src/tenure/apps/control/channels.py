"""The leader's side: how a delivery reaches a worker, and many of them at once."""

import json
import ssl
from collections.abc import Mapping
from typing import Final, Protocol

import anyio

from tenure.apps.control.order import Delivery, Receipt
from tenure.errors import ConfigError, Refused, StaleToken, StoreError, TenureOver, UnverifiedToken
from tenure.sinks.base import Bound
from tenure.sinks.http import HttpSink
from tenure.sinks.http.signing import Signing

PATH: Final = "/orders"
_OK: Final = 200
_TIMEOUT_S: Final = 5.0
_TEXT_MAX: Final = 200


class Channel(Protocol):
    """A way to one worker. Whatever carries a token, a fence and a few bytes, and brings an answer back, can be one."""

    async def deliver(self, term: Bound, delivery: Delivery) -> Receipt:
        """Deliver under the token of ``term``, and return what the worker acknowledged.

        Raises StaleToken if a newer leader was there, UnverifiedToken, Refused if the worker would not have it, Unreachable if it was not
        sent, and OutcomeUnknown if no answer came: deliver the same again then.
        """
        ...


class HttpChannel:
    """A worker behind ``tenure.web.OrdersWSGI``, or any service that answers likewise. Needs nothing but Python.

    ``secret`` signs the token, for a worker that shares it. It does not cover what is ordered: use https where others listen.
    """

    def __init__(
        self,
        url: str,
        *,
        secret: Signing | None = None,
        timeout_s: float = _TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._sink = HttpSink(url, secret=secret, timeout_s=timeout_s, tls=tls)

    def __repr__(self) -> str:
        return f"<http channel {self._sink.origin}>"

    async def deliver(self, term: Bound, delivery: Delivery) -> Receipt:
        """Send it, once (see ``Channel``). Raises TenureOver before anything is sent if ``term`` is over."""
        headers = {"Content-Type": "application/json"}
        answer = await self._sink.bind(term).request("POST", PATH, delivery.to_json(), headers)
        if answer.status != _OK:
            raise Refused(self._sink.origin, "deliver", f"it answered {answer.status}: {_detail(answer.body)}")
        try:
            return Receipt.from_json(answer.body)
        except ConfigError as error:
            raise Refused(self._sink.origin, "deliver", str(error)) from None


Outcome = Receipt | StoreError | UnverifiedToken


async def deliver_to_all(
    term: Bound, channels: Mapping[str, Channel], deliveries: Mapping[str, Delivery], *, at_once: int = 32
) -> dict[str, Outcome]:
    """Deliver to every worker that ``deliveries`` names, and return what came of each; ``at_once`` at the same time.

    A worker that cannot be reached keeps nobody waiting but its own place. Raises StaleToken if any worker has heard a newer leader, and
    TenureOver if ``term`` ends meanwhile: then this leader is over, and some of the workers may have been told all the same.
    """
    unknown = [name for name in deliveries if name not in channels]
    if unknown:
        raise ConfigError("deliveries", repr(unknown[0])[:40], "must be for workers that there are channels to")
    outcomes: dict[str, Outcome] = {}
    over: list[StaleToken | TenureOver] = []
    room = anyio.CapacityLimiter(at_once)

    async def deliver(name: str) -> None:
        async with room:
            try:
                outcomes[name] = await channels[name].deliver(term, deliveries[name])
            except (StaleToken, TenureOver) as error:  # Raised below: in here it would become one of a group.
                over.append(error)
            except (StoreError, UnverifiedToken) as error:
                outcomes[name] = error

    async with anyio.create_task_group() as tasks:
        for name in deliveries:
            tasks.start_soon(deliver, name)
    if over:
        raise over[0]
    return outcomes


def _detail(body: bytes) -> str:
    try:
        found = json.loads(body)["detail"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return "and no reason"
    return str(found)[:_TEXT_MAX]

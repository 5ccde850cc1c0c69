"""Whoever refuses a token tells it under its own name with the fence: a worker, a service, and the sink that asked it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import anyio
import pytest

from tenure.errors import StaleToken
from tenure.facts import subscribe
from tenure.facts.kinds import Fact, RefusedStale
from tenure.facts.log import worded
from tenure.model import Token
from tenure.sinks import MemoryMark, Orders
from tenure.sinks.http import HttpSink
from tenure.web import FencedASGI, FencedWSGI, Guard, Route
from tests.web.service import Service
from tests.web.serving import Serve, asgi, wsgi
from tests.web.test_http_around import asking, header

PATIENCE_S = 30.0
FENCE = "etcd/7/crawl"


@contextmanager
def refusals() -> Iterator[list[tuple[str, str]]]:
    """Who refused, of which fence; complete when the block has ended."""
    told: list[tuple[str, str]] = []

    def hear(fact: Fact) -> None:
        assert isinstance(fact.what, RefusedStale)
        told.append((fact.what.sink, fact.what.fence))

    with subscribe(hear, kinds=(RefusedStale,)) as subscription:
        yield told
        assert subscription.wait_until_told(PATIENCE_S)


def test_a_worker_tells_whose_order_it_refused() -> None:
    orders = Orders(MemoryMark())
    new, old = (SimpleNamespace(fence=FENCE, token=token) for token in (2, 1))
    orders.accept(new)
    with refusals() as told:
        with pytest.raises(StaleToken):
            orders.accept(old)
        with pytest.raises(StaleToken):
            anyio.run(orders.accept_soon, old)
        with pytest.raises(StaleToken):
            anyio.run(orders.seal, FENCE, Token(1))
    assert told == [("Orders", FENCE)] * 3


@pytest.mark.parametrize("kind", ["wsgi", "asgi"])
def test_a_service_tells_whose_request_it_refused(kind: str) -> None:
    ask = asking(kind, Guard([Route("/x", FENCE)], MemoryMark()))
    assert ask("/x", value=header(2, FENCE))[0] == 200
    with refusals() as told:
        assert ask("/x", value=header(1, FENCE)) == (409, "stale")
    assert told == [("Guard", FENCE)]


@pytest.mark.parametrize(("serve", "fenced"), [(asgi, FencedASGI), (wsgi, FencedWSGI)], ids=["asgi", "wsgi"])
def test_the_sink_that_asked_tells_it_beside_the_service(serve: Serve, fenced: Callable[..., object]) -> None:
    service = Service()
    app = fenced(service.asgi if serve is asgi else service.wsgi, Guard([Route("/x", FENCE)], MemoryMark()))
    with serve(app) as url, refusals() as told:
        sink = HttpSink(url)
        anyio.run(sink.seal, FENCE, Token(2))
        with pytest.raises(StaleToken):
            anyio.run(sink.bind(SimpleNamespace(fence=FENCE, token=1)).request, "POST", "/x")
    assert sorted(told) == [("Guard", FENCE), ("HttpSink", FENCE)]


@pytest.mark.parametrize(
    ("fence", "said"), [("", ""), (FENCE, " of etcd/7/crawl"), ("a\nb\x1b[2J", r" of 'a\nb\x1b[2J'")]
)
def test_a_line_of_the_log_names_the_fence_and_stays_one_line(fence: str, said: str) -> None:
    line = worded(Fact(RefusedStale("Guard", 1, 2, fence), 0, 0.0))
    assert line == f"Guard refused token 1{said} as stale: the highest seen is 2"

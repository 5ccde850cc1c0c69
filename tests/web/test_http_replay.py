"""A request that was overheard and is said again: for how long it passes, where, and what ends that.

A signature covers the token, the fence and the expiry, and neither path nor body. So there is a window, which the documents
state; these tests hold it to what they say.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import anyio
import pytest

from tenure.model import Token
from tenure.sinks import HttpSink, MemoryMark
from tenure.sinks.http import JwtKey, JwtSigner, Presented, Secret
from tenure.sinks.http.signing import LIFETIME_S, SKEW_S
from tenure.web import Guard, Route
from tests.web.service import Rig
from tests.web.serving import asgi, wsgi
from tests.web.wire import Wire, repeat

BILLING, POST = "etcd://h1/billing", "etcd://h1/post"
ADA, BOB = Presented(Token(7), BILLING), Presented(Token(8), BILLING)
SECRET = "a secret of both sides, long enough"
SLACK_S = 15  # what a busy machine may take between signing and judging

SIGNERS: dict[str, Any] = {
    "secret": (Secret(SECRET), {"secrets": [SECRET]}),
    "web-token": (JwtSigner.shared(SECRET, audience="bills"), {"keys": [JwtKey.shared(SECRET, audience="bills")]}),
}
Serve = Callable[..., Rig]


@pytest.fixture(params=[asgi, wsgi], ids=["uvicorn", "wsgiref"])
def serve(request: pytest.FixtureRequest) -> Iterator[Serve]:
    with ExitStack() as stack:

        def started(**options: Any) -> Rig:
            routes = [Route("/entries", BILLING), Route("/letters", POST)]
            rig = Rig(request.param, stack)
            rig.start(Guard(options.pop("routes", routes), options.pop("mark", MemoryMark()), **options))
            return rig

        yield started


def overheard(rig: Rig, signer: Any) -> bytes:
    """Return what a leader's client really says, as somebody on the wire has it."""
    with Wire(rig.url) as wire:
        answer = anyio.run(HttpSink(wire.url, secret=signer).bind(ADA).request, "POST", "/entries/1", b"pay 10")
        assert answer.status == 200
        return wire.heard


@pytest.mark.parametrize("kind", SIGNERS)
def test_an_overheard_request_passes_again_until_its_leader_is_succeeded(serve: Serve, kind: str) -> None:
    signer, options = SIGNERS[kind]
    rig = serve(**options)
    said = overheard(rig, signer)
    assert repeat(said, rig.url)[0] == 200  # The window: it is said by whoever heard it,
    other = said.replace(b"/entries/1", b"/entries/2").replace(b"pay 10", b"pay 99")
    assert repeat(other, rig.url)[0] == 200  # and need not even say the same.
    assert rig.service.calls == ["/entries/1", "/entries/1", "/entries/2"]
    anyio.run(HttpSink(rig.url, secret=signer).seal, BOB.fence, BOB.token)
    assert repeat(said, rig.url) == (409, "stale")
    assert len(rig.service.calls) == 3


@pytest.mark.parametrize("kind", SIGNERS)
def test_an_overheard_request_is_refused_once_it_has_expired_by_the_clock_of_the_service(
    serve: Serve, kind: str
) -> None:
    signer, options = SIGNERS[kind]
    mark = MemoryMark()
    said = overheard(serve(mark=mark, **options), signer)
    later = serve(mark=mark, skew_s=-LIFETIME_S - 1, **options)  # A service that forgives so little is that far ahead.
    assert repeat(said, later.url) == (403, "expired")
    assert repeat(said.replace(b"/entries/1", b"/.well-known/tenure/seal"), later.url) == (403, "expired")
    assert later.service.calls == []


@pytest.mark.parametrize("kind", SIGNERS)
def test_the_window_is_the_lifetime_and_the_difference_of_clocks_that_is_forgiven(serve: Serve, kind: str) -> None:
    signer, options = SIGNERS[kind]
    rig, strict = serve(**options), serve(skew_s=0, **options)

    def aged(age_s: int) -> str:
        """A header of the leader, so many seconds after it was signed."""
        value: str = signer.header_value(ADA, LIFETIME_S - age_s)
        return value

    assert rig.ask("/entries", aged(LIFETIME_S + SKEW_S - SLACK_S))[0] == 200
    assert rig.ask("/entries", aged(LIFETIME_S + SKEW_S + 1))[1]["tenure-refused"] == "expired"
    assert strict.ask("/entries", aged(LIFETIME_S - SLACK_S))[0] == 200
    assert strict.ask("/entries", aged(LIFETIME_S + 1))[1]["tenure-refused"] == "expired"


@pytest.mark.parametrize("kind", SIGNERS)
def test_an_overheard_request_counts_for_nothing_on_the_routes_of_another_fence(serve: Serve, kind: str) -> None:
    signer, options = SIGNERS[kind]
    rig = serve(**options)
    said = overheard(rig, signer)
    assert repeat(said.replace(b"/entries/1", b"/letters/1"), rig.url) == (403, "other-fence")
    elsewhere = serve(routes=[Route("/", POST)], **options)
    assert repeat(said, elsewhere.url) == (403, "other-fence")
    assert elsewhere.service.calls == []


def test_an_overheard_request_counts_elsewhere_only_by_a_shared_secret_or_the_same_audience(serve: Serve) -> None:
    secret, web_token = (overheard(serve(**options), signer) for signer, options in SIGNERS.values())
    same, of_its_own = serve(**SIGNERS["secret"][1]), serve(secrets=["a secret of the other service"])
    assert repeat(secret, same.url)[0] == 200  # The window between services that share a fence and a secret.
    assert repeat(secret, of_its_own.url) == (403, "unsigned")
    other = serve(keys=[JwtKey.shared(SECRET, audience="mail")])
    assert repeat(web_token, other.url) == (403, "other-audience")
    assert repeat(web_token, serve(**SIGNERS["web-token"][1]).url)[0] == 200
    assert (of_its_own.service.calls, other.service.calls) == ([], [])

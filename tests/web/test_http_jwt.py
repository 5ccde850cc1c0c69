"""Headers that are JSON web tokens: who can present one, and all the ways of forging one, behind real servers."""

import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import anyio
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from tenure.errors import Refused
from tenure.model import TOKEN_MAX, Token
from tenure.sinks import HttpSink, MemoryMark
from tenure.sinks.http import JwtKey, JwtSigner, Presented, Secret
from tenure.sinks.http.header import value_of
from tenure.web import Guard, Route
from tests.web.service import Rig
from tests.web.serving import asgi, wsgi

FENCE = "etcd://h1,h2/billing é"
SEAL = "/.well-known/tenure/seal"
SHARED = "a secret of thirty-two bytes or more"
LATE_S = 31  # one more than a service forgives
TERM = Presented(Token(7), FENCE)


class Pair(NamedTuple):
    """A leader's key and a service's."""

    signer: JwtSigner
    key: JwtKey
    private: Any
    algorithm: str
    public_pem: bytes = b""


def _pair(private: Any, algorithm: str) -> Pair:
    secret_pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public_pem = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return Pair(JwtSigner.private(secret_pem), JwtKey.public(public_pem), private, algorithm, public_pem)


PAIRS = {
    "HS256": Pair(JwtSigner.shared(SHARED), JwtKey.shared(SHARED), SHARED, "HS256"),
    "RS256": _pair(rsa.generate_private_key(65537, 2048), "RS256"),
    "ES256": _pair(ec.generate_private_key(ec.SECP256R1()), "ES256"),
    "EdDSA": _pair(ed25519.Ed25519PrivateKey.generate(), "EdDSA"),
}
STRANGER = _pair(ec.generate_private_key(ec.SECP256R1()), "ES256")


@pytest.fixture(params=[asgi, wsgi], ids=["uvicorn", "wsgiref"])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    with ExitStack() as stack:
        yield Rig(request.param, stack)


def guard(*keys: JwtKey, **options: Any) -> Guard:
    return Guard([Route("/", FENCE)], MemoryMark(), keys=keys or [pair.key for pair in PAIRS.values()], **options)


def b64(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def claims(**changed: Any) -> dict[str, Any]:
    now = int(time.time())
    found = {"token": 9, "fence": FENCE, "nbf": now, "exp": now + 60} | changed
    return {name: value for name, value in found.items() if value is not ...}


def made(payload: Any, pair: Pair = PAIRS["ES256"], **header: Any) -> str:
    """A token that is signed as it must be, whatever it says."""
    raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return jwt.PyJWS().encode(raw, pair.private, pair.algorithm, {"typ": "tenure+jwt", **header})


def by_hand(header: Any, signature: Callable[[bytes], bytes] = lambda _: b"", **changed: Any) -> str:
    """A token of any header, with what is given for a signature."""
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    text = f"{b64(head)}.{b64(json.dumps(claims(**changed)).encode())}"
    return f"{text}.{b64(signature(text.encode()))}"


def by_hmac(key: bytes) -> Callable[[bytes], bytes]:
    return lambda text: hmac.digest(key, text, hashlib.sha256)


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_leader_signs_by_any_kind_of_key_and_seals(rig: Rig, pair: Pair) -> None:
    rig.start(guard(pair.key))
    sink = HttpSink(rig.url, secret=pair.signer)
    anyio.run(sink.seal, FENCE, Token(6))
    assert anyio.run(sink.bind(TERM).request, "POST", "/entries").body == b"7"
    assert anyio.run(sink.bind(Presented(Token(TOKEN_MAX), FENCE)).request, "POST", "/entries").status == 200
    value = pair.signer.header_value(TERM)
    assert rig.ask("/entries", value)[1]["tenure-refused"] == "stale"
    verifier = pair.public_pem or SHARED
    assert jwt.decode(value, verifier, [pair.algorithm])["fence"] == FENCE  # as any reader of the standard has it


def not_refused(rig: Rig, word: str, values: dict[str, str]) -> dict[str, object]:
    """Those that are not refused with this word, by a request and by a seal. None may reach the service, raise its mark, or be told."""
    expected, found = (400 if word == "malformed" else 403, word), dict[str, object]()
    for name, value in values.items():
        for path in ("/entries", SEAL):
            status, headers, body = rig.ask(path, value)
            answer = status, headers.get("tenure-refused")
            if answer != expected or SHARED.encode() in body or value.encode() in body:
                found[f"{name} at {path}"] = answer
    assert rig.service.calls == []
    assert rig.ask("/entries", PAIRS["ES256"].signer.header_value(Presented(Token(1), FENCE)))[0] == 200
    return found


def test_what_none_of_the_keys_has_signed_is_worth_nothing(rig: Rig) -> None:
    rig.start(guard())
    typ = {"typ": "tenure+jwt"}
    good = PAIRS["ES256"].signer.header_value(TERM)
    head, payload, signature = good.split(".")
    spoofed = {
        f"{name} by {PAIRS[kind].algorithm}'s public key": by_hand({"alg": "HS256", **typ}, by_hmac(material))
        for kind in ("RS256", "ES256", "EdDSA")
        for name, material in {
            "HS256": PAIRS[kind].public_pem,
            "HS256, stripped": PAIRS[kind].public_pem.strip(),
            "HS256, DER": serialization.load_pem_public_key(PAIRS[kind].public_pem).public_bytes(
                serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
            ),
        }.items()
    }
    spoofed |= {f"alg={name}": by_hand({"alg": name, **typ}) for name in ("none", "None", "NONE", "", "HS512", "es256")}
    spoofed |= {
        "none with a signature": by_hand({"alg": "none", **typ}, lambda _: b"x"),
        "no signature": f"{head}.{payload}.",
        "ES256 of zeros": f"{head}.{payload}.{b64(bytes(64))}",
        "ES256 too short": f"{head}.{payload}.{b64(b'x')}",
        "an empty secret": by_hand({"alg": "HS256", **typ}, by_hmac(b"")),
        "a stranger's key": STRANGER.signer.header_value(TERM),
        "a stranger's key with our kid": made(claims(), STRANGER, kid="ours"),
        "a stranger's secret": JwtSigner.shared(SHARED[::-1]).header_value(TERM),
        "other claims": f"{head}.{b64(json.dumps(claims()).encode())}.{signature}",
        "the header of another algorithm": f"{b64(json.dumps({'alg': 'EdDSA', **typ}).encode())}.{payload}.{signature}",
        "no signature in the other grammar": value_of(TERM),
        "a signature of the other grammar": value_of(Secret(SHARED).sign(TERM)),
    }
    assert not_refused(rig, "unsigned", spoofed) == {}


def test_what_is_no_token_of_ours_is_malformed_however_well_it_is_signed(rig: Rig) -> None:
    rig.start(guard())
    good = PAIRS["EdDSA"].signer.header_value(TERM)
    head, payload, signature = good.split(".")
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    same_bytes = signature[:-1] + last[last.index(signature[-1]) + 1]  # two of its bits belong to nothing
    own_key = {"kty": "oct", "k": b64(SHARED.encode())}
    rubbish = {
        "a token for another purpose": made(claims(), typ="JWT"),
        "crit": made(claims(), crit=["b64"], b64=True),
        "crit of its own": by_hand({"alg": "ES256", "typ": "tenure+jwt", "crit": ["x"], "x": 1}),
        "a key of its own": by_hand({"alg": "HS256", "typ": "tenure+jwt", "jwk": own_key}, by_hmac(SHARED.encode())),
        "a key from elsewhere": made(claims(), jku="https://strangers.example/keys"),
        "no algorithm": by_hand({"typ": "tenure+jwt"}),
        "an algorithm that is a list": by_hand({"alg": ["ES256", "none"], "typ": "tenure+jwt"}),
        "two algorithms": by_hand(b'{"alg":"none","alg":"ES256","typ":"tenure+jwt"}'),
        "a header that is a list": by_hand(["ES256"]),
        "a header that is no JSON": by_hand(b"\xff\xfe{"),
        "a header of brackets": by_hand(b"[" * 900),
        "a kid of brackets": by_hand(b'{"alg":"ES256","typ":"tenure+jwt","kid":' + b"[" * 400 + b"]" * 400 + b"}"),
        "a kid that is a number": by_hand({"alg": "ES256", "typ": "tenure+jwt", "kid": 7}),
        "a header of objects": by_hand(b'{"alg":' * 130),
        "another spelling of the signature": f"{head}.{payload}.{same_bytes}",
        "one letter of base64": f"{head}.{payload}.A",
        "padding": f"{head}.{payload}.{signature}==",
        "four parts": f"{good}.{signature}",
        "five parts, encrypted": f"{good}.{signature}.{signature}",
        "dots": "..",
        "twice in one": f"{good},{good}",
        "with a blank": f"{head}. {payload}.{signature}",
        "as a bearer": f"Bearer {good}",
        "both grammars": f"7; fence=x; {good}",
        "too long": made(claims(more="x" * 2000)),
    }
    assert not_refused(rig, "malformed", rubbish) == {}


CLAIMS: dict[str, dict[str, Any]] = {
    "no token": {"token": ...},
    "no fence": {"fence": ...},
    "no expiry": {"exp": ...},
    "no beginning": {"nbf": ...},
    **{f"token {n!r}": {"token": n} for n in (0, -1, True, False, 9.0, 9e3, "9", "", None, [9], {"n": 9})},
    "token beyond the largest": {"token": TOKEN_MAX + 1},
    "token of 600 digits": {"token": 10**600},
    "token not a number": {"token": float("nan")},
    "token infinite": {"token": float("inf")},
    **{f"expiry {n!r}": {"exp": n} for n in (-1, True, "99999999999", 99999999999.5, 10**13, None, float("inf"))},
    **{f"beginning {n!r}": {"nbf": n} for n in (-1, False, "1", 1.5, None)},
    **{f"fence {n!r}": {"fence": n} for n in ("", None, 7, [FENCE], "a\0b", "\ud800")},
    "audience a list": {"aud": ["x"]},
    "audience nobody": {"aud": None},
}


def test_claims_that_are_missing_or_cannot_be_are_refused_though_they_are_signed(rig: Rig) -> None:
    rig.start(guard())
    values = {name: made(claims(**changed)) for name, changed in CLAIMS.items()}
    twice = b'{"token":9,"token":8,' + json.dumps(claims(token=...)).encode()[1:]
    values |= {"two tokens": made(twice), "a list": made([claims()]), "no JSON": made(b"token=9")}
    values |= {"brackets": made(b"[" * 1200), "nothing": made(b" ")}
    assert not_refused(rig, "malformed", values) == {}


def test_the_times_are_kept_but_for_a_small_difference_of_clocks(rig: Rig) -> None:
    rig.start(guard())
    now = int(time.time())
    assert (
        not_refused(
            rig, "expired", {"expired": made(claims(nbf=now - 99, exp=now - LATE_S)), "long ago": made(claims(exp=0))}
        )
        == {}
    )
    rig.service.calls.clear()
    early = {"early": made(claims(nbf=now + 99, exp=now + 200)), "never": made(claims(nbf=now + 200, exp=now + 99))}
    early |= {"for too long": made(claims(exp=now + 120)), "for ever": made(claims(nbf=0, exp=10**12))}
    assert not_refused(rig, "early", early) == {}
    assert rig.ask("/entries", made(claims(nbf=now + 25)))[0] == 200
    assert rig.ask("/entries", made(claims(exp=now + 85)))[0] == 200  # of a leader whose clock is ahead


def test_a_token_that_was_accepted_is_refused_once_it_has_expired(rig: Rig) -> None:
    rig.start(guard())
    value = PAIRS["ES256"].signer.header_value(TERM)
    assert rig.ask("/entries", value)[0] == 200
    assert rig.ask("/entries", value)[0] == 200
    rig.guard._skew_s = -61  # as if a minute had passed
    assert rig.ask("/entries", value)[1]["tenure-refused"] == "expired"
    assert rig.ask(SEAL, value)[1]["tenure-refused"] == "expired"


def test_a_token_of_another_fence_counts_for_nothing_here(rig: Rig) -> None:
    rig.start(guard())
    assert (
        not_refused(
            rig, "other-fence", {"another": made(claims(fence="etcd://h1/post")), "a part": made(claims(fence="etcd"))}
        )
        == {}
    )


def test_an_audience_keeps_a_service_from_passing_a_token_on_to_another(rig: Rig) -> None:
    pair = PAIRS["ES256"]
    rig.start(
        guard(JwtKey.public(pair.public_pem, audience="bills"), JwtKey.public(pair.public_pem, audience="old name"))
    )
    for audience in ("bills", "old name"):
        assert rig.ask("/entries", made(claims(aud=audience)))[0] == 200
    for value in (made(claims()), made(claims(aud="mail")), made(claims(aud="Bills"))):
        for path in ("/entries", SEAL):
            assert rig.ask(path, value)[1]["tenure-refused"] == "other-audience"
    with pytest.raises(Refused, match="signed for another service"):
        anyio.run(HttpSink(rig.url, secret=pair.signer).seal, FENCE, Token(99))
    rig.start(guard(pair.key))
    assert rig.ask("/entries", made(claims(aud="bills")))[1]["tenure-refused"] == "other-audience"


def test_a_key_of_one_fence_speaks_for_no_other(rig: Rig) -> None:
    ours, theirs, both = PAIRS["ES256"], STRANGER, PAIRS["EdDSA"]
    keys = [JwtKey.public(ours.public_pem, fence=FENCE), JwtKey.public(theirs.public_pem, fence="post"), both.key]
    rig.start(Guard([Route("/bills", FENCE), Route("/mail", "post")], MemoryMark(), keys=keys))
    # Neither can raise the mark of the other, nor learns whether there is such a fence.
    forged = [theirs.signer.header_value(Presented(Token(TOKEN_MAX), fence)) for fence in (FENCE, "none such")]
    for value in [*forged, ours.signer.header_value(Presented(Token(TOKEN_MAX), "post"))]:
        for path in ("/bills", "/mail", SEAL):
            status, headers, body = rig.ask(path, value)
            assert (status, headers["tenure-refused"], b"token" in json.loads(body)) == (403, "unsigned", False)
    for pair, path, fence in ((ours, "/bills", FENCE), (theirs, "/mail", "post"), (both, "/mail", "post")):
        assert rig.ask(path, pair.signer.header_value(Presented(Token(7), fence)))[0] == 200
    assert rig.ask("/mail", ours.signer.header_value(TERM))[1]["tenure-refused"] == "other-fence"


def test_an_audience_counts_only_by_a_key_of_the_fence(rig: Rig) -> None:
    pem = PAIRS["ES256"].public_pem
    rig.start(
        guard(JwtKey.public(pem, audience="bills", fence=FENCE), JwtKey.public(pem, audience="mail", fence="post"))
    )
    assert rig.ask("/entries", made(claims(aud="bills")))[0] == 200
    assert rig.ask("/entries", made(claims(aud="mail")))[1]["tenure-refused"] == "other-audience"


def test_keys_are_rotated_by_accepting_the_old_and_the_new_one_and_secrets_by_either(rig: Rig) -> None:
    old, new = PAIRS["ES256"], PAIRS["RS256"]
    rig.start(guard(old.key, STRANGER.key, new.key, secrets=[SHARED]))
    values = [pair.signer.header_value(TERM) for pair in (old, new, STRANGER)]
    for value in [*values, value_of(Secret(SHARED).sign(TERM))]:
        assert rig.ask("/entries", value)[::2] == (200, b"7")
    assert rig.ask("/entries", value_of(TERM))[1]["tenure-refused"] == "unsigned"
    # The same secret serves both ways, and a service that takes one of them does not take the other by it.
    assert rig.ask("/entries", JwtSigner.shared(SHARED).header_value(TERM))[1]["tenure-refused"] == "unsigned"
    rig.start(guard(new.key))
    assert [rig.ask("/entries", value)[0] for value in values] == [403, 200, 403]


def test_a_token_counts_nowhere_without_keys(rig: Rig) -> None:
    value = JwtSigner.shared(SHARED).header_value(TERM)
    for secrets in (None, [SHARED]):
        rig.start(Guard([Route("/", FENCE)], MemoryMark(), secrets=secrets))
        assert rig.ask("/entries", value)[1]["tenure-refused"] == "unsigned"
    assert rig.service.calls == []


def test_headers_that_come_twice_are_refused_and_one_that_is_missing_is(rig: Rig) -> None:
    rig.start(guard())
    one, other = (PAIRS[kind].signer.header_value(TERM) for kind in ("ES256", "HS256"))
    for values in ([one, one], [one, other], [one, value_of(TERM)], [value_of(TERM), one]):
        assert rig.ask("/entries", *values)[0] == 400
        assert rig.ask(SEAL, *values)[0] == 400
    assert rig.ask("/entries")[0] == 428
    assert rig.service.calls == []

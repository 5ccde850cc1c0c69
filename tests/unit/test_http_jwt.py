"""Web tokens apart from any server: whatever comes is judged without an accident, and no key is ever shown."""

import json
import pickle
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization as to
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa, x25519
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import ConfigError
from tenure.model import TOKEN_MAX, Token
from tenure.sinks import HttpSink, MemoryMark
from tenure.sinks.http import JwtKey, JwtSigner, Presented, requests_auth
from tenure.sinks.http.header import Malformed, read
from tenure.sinks.http.jwt_claims import is_jwt
from tenure.sinks.http.jwt_signing import JwtKeys
from tenure.sinks.http.refusing import Refusal
from tenure.web import Guard, Route

SHARED = "hunter2 hunter2 hunter2 hunter2 hunter2"
SIGNER, KEYS = JwtSigner.shared(SHARED), JwtKeys([JwtKey.shared(SHARED)])
FENCES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=100)


def private_pem(key: Any, password: bytes = b"") -> bytes:
    sealing = to.BestAvailableEncryption(password) if password else to.NoEncryption()
    found: bytes = key.private_bytes(to.Encoding.PEM, to.PrivateFormat.PKCS8, sealing)
    return found


def public_pem(key: Any) -> bytes:
    found: bytes = key.public_key().public_bytes(to.Encoding.PEM, to.PublicFormat.SubjectPublicKeyInfo)
    return found


P256 = ec.generate_private_key(ec.SECP256R1())


@given(st.integers(1, TOKEN_MAX).map(Token), FENCES, st.none() | st.text(min_size=1, max_size=20).filter(str.isascii))
def test_what_was_signed_is_read_as_it_was(token: Token, fence: str, audience: str | None) -> None:
    value = JwtSigner.shared(SHARED, audience=audience).header_value(Presented(token, fence))
    found = JwtKeys([JwtKey.shared(SHARED, audience=audience)]).judge(value, 30)
    assert isinstance(found, Presented)
    assert (found.token, found.fence) == (token, fence)
    assert is_jwt(value)
    with pytest.raises(Malformed):  # No text belongs to both grammars.
        read(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
CLAIMS = st.dictionaries(st.sampled_from(["token", "fence", "exp", "nbf", "aud", "more"]), JSON)
HEADERS = st.dictionaries(
    st.sampled_from(["alg", "typ", "kid", "crit", "b64"]), JSON | st.just("HS256") | st.just("tenure+jwt")
)


@given(CLAIMS | st.binary(max_size=300))
def test_whatever_a_key_has_signed_is_judged(payload: Any) -> None:
    raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    value = jwt.PyJWS().encode(raw, SHARED, "HS256", {"typ": "tenure+jwt"})
    assert isinstance(KEYS.judge(value, 30), Refusal)


@given(HEADERS.map(lambda header: json.dumps(header).encode()) | st.binary(max_size=300), st.binary(max_size=99))
def test_whatever_nobody_has_signed_is_refused(header: bytes, rest: bytes) -> None:
    value = ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in (header, rest, rest))
    found = KEYS.judge(value, 30)
    assert isinstance(found, Refusal)
    assert found.word in {"malformed", "unsigned"}


@given(st.integers(0, 300), st.integers(0, 63))
def test_no_letter_of_a_token_can_be_changed(place: int, letter: int) -> None:
    value = SIGNER.header_value(Presented(Token(7), "etcd://h1/billing"))
    place %= len(value)
    changed = (
        value[:place] + "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[letter] + value[place + 1 :]
    )
    found = KEYS.judge(changed, 30)
    assert isinstance(found, Presented) == (changed == value)


def test_a_leader_signs_once_a_second_and_anew_for_another_token() -> None:
    signer = JwtSigner.private(private_pem(P256))  # Two signatures of this kind always differ.
    values = {signer.header_value(Presented(Token(7), "f"), 10**9) for _ in range(200)}
    assert len(values) < 200
    assert signer.header_value(Presented(Token(8), "f")) != signer.header_value(Presented(Token(7), "f"))


def test_only_token_and_fence_are_signed() -> None:
    signed = SIGNER.header_value(Presented(Token(7), "f", 5, "a signature"))
    assert set(jwt.decode(signed, SHARED, ["HS256"])) == {"token", "fence", "nbf", "exp"}


WEAK = [
    ec.generate_private_key(ec.SECP384R1()),
    ed448.Ed448PrivateKey.generate(),
    rsa.generate_private_key(65537, 1024),  # noqa: S505  (that it is weak is what is tested)
    x25519.X25519PrivateKey.generate(),
]
REFUSED: list[Callable[[], object]] = [
    *(lambda key=key: JwtSigner.private(private_pem(key)) for key in WEAK),
    *(lambda key=key: JwtKey.public(public_pem(key)) for key in WEAK),
    lambda: JwtSigner.shared("hunter2"),
    lambda: JwtKey.shared(b"hunter2"),
    lambda: JwtKey.shared(public_pem(P256)),
    lambda: JwtSigner.shared(b"\n" + public_pem(P256)),
    lambda: JwtKey.shared(P256.public_key().public_bytes(to.Encoding.OpenSSH, to.PublicFormat.OpenSSH)),
    lambda: JwtKey.shared(42),  # type: ignore[arg-type]
    lambda: JwtKey.public("hunter2"),
    lambda: JwtKey.public(b""),
    lambda: JwtKey.public("hunter2 \ud800"),
    lambda: JwtKey.public(private_pem(P256)),
    lambda: JwtKey.public(public_pem(P256) + private_pem(P256)),
    lambda: JwtKey.public(P256),  # type: ignore[arg-type]
    lambda: JwtSigner.private(public_pem(P256)),
    lambda: JwtSigner.private(private_pem(P256, b"hunter2")),
    lambda: JwtSigner.private("-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n"),
    lambda: JwtKey.shared(f"{SHARED} \ud800"),
    lambda: JwtSigner.shared(f"{SHARED} \ud800"),
    lambda: JwtSigner.private("hunter2 \ud800"),
    lambda: JwtSigner.shared(SHARED, audience=""),
    lambda: JwtSigner.shared(SHARED, audience=["bills"]),  # type: ignore[arg-type]
    lambda: JwtKey.shared(SHARED, audience=["bills"]),  # type: ignore[arg-type]
    lambda: JwtKey.public(public_pem(P256), audience=b"bills"),  # type: ignore[arg-type]
    lambda: JwtSigner.shared(SHARED, audience="\udcff"),
    lambda: JwtKey.shared(SHARED, fence=""),
    lambda: JwtKey.shared(SHARED, fence=7),  # type: ignore[arg-type]
    lambda: JwtKey.public(public_pem(P256), fence="\ud800"),
    lambda: SIGNER.header_value(Presented(Token(0), "f")),
    lambda: SIGNER.header_value(Presented(Token(7), "")),
    lambda: SIGNER.header_value(Presented(Token(7), "\ud800")),
    lambda: SIGNER.header_value(Presented(Token(7), "x" * 2000)),
    lambda: Guard([Route("/", "f")], MemoryMark(), keys=[]),
    lambda: Guard([Route("/", "f")], MemoryMark(), keys=[SHARED]),  # type: ignore[list-item]
    lambda: Guard([Route("/", "f")], MemoryMark(), keys=SHARED),  # type: ignore[arg-type]
    lambda: Guard([Route("/", "f")], MemoryMark(), keys=[SIGNER]),  # type: ignore[list-item]
    lambda: HttpSink("http://h", secret=JwtKey.shared(SHARED)),  # type: ignore[arg-type]
    lambda: requests_auth(Presented(Token(7), "f"), "http://h", secret=42),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("make", REFUSED)
def test_what_cannot_work_is_told_at_once_in_one_line_without_the_key(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError) as told:
        make()
    shown = f"{told.value} {told.value.args} {told.value.__cause__!r} {told.value.__context__!r}"
    assert "hunter2" not in shown
    assert "-----" not in shown
    assert "\n" not in shown


def test_no_key_is_shown() -> None:
    keys = [JwtKey.shared(SHARED), JwtKey.public(public_pem(ed25519.Ed25519PrivateKey.generate()))]
    guard = Guard([Route("/", "f")], MemoryMark(), keys=keys)
    sink = HttpSink("http://h", secret=SIGNER)
    assert [repr(key) for key in keys] == ["<JwtKey HS256>", "<JwtKey EdDSA>"]
    assert "hunter2" not in f"{vars(guard)} {vars(sink)} {SIGNER} {SIGNER._key}"


def test_no_key_is_pickled() -> None:
    keys = [
        SIGNER,
        SIGNER._key,
        JwtKey.shared(SHARED),
        JwtKey.public(public_pem(P256)),
        HttpSink("http://h", secret=SIGNER),
    ]
    for key in keys:
        for protocol in (0, 2, pickle.HIGHEST_PROTOCOL):
            with pytest.raises(TypeError, match="cannot be pickled"):
                pickle.dumps(key, protocol)


def test_a_secret_of_the_environment_is_the_same_as_text_and_as_bytes() -> None:
    raw = SHARED.encode() + b"\xff\xfe"
    value = JwtSigner.shared(raw.decode("utf-8", "surrogateescape")).header_value(Presented(Token(7), "f"))
    assert isinstance(JwtKeys([JwtKey.shared(raw)]).judge(value, 30), Presented)


@pytest.mark.parametrize(
    ("absent", "call"),
    [
        ("jwt", f"JwtSigner.shared({SHARED!r})"),
        ("jwt", f"JwtKey.shared({SHARED!r})"),
        ("jwt", "JwtKey.public('x')"),
        ("cryptography", "JwtSigner.private('x')"),
        ("cryptography", "JwtKey.public('x')"),
    ],
)
def test_a_package_that_is_missing_is_named_with_the_way_to_get_it(absent: str, call: str) -> None:
    program = (
        f"import sys; sys.modules[{absent!r}] = None\n"
        "from tenure.errors import ConfigError\n"
        "from tenure.sinks.http import JwtKey, JwtSigner\n"
        f"try:\n    {call}\nexcept ConfigError as error:\n    print(error)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    name = {"jwt": "PyJWT"}.get(absent, absent)
    assert answer.stdout == f"jwt = {name}: must be installed: pip install 'tenure[jwt]'\n"


def test_a_shared_secret_needs_no_cryptography() -> None:
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from tenure.sinks.http import JwtKey, JwtSigner, Presented\n"
        "from tenure.sinks.http.jwt_signing import JwtKeys\n"
        f"value = JwtSigner.shared({SHARED!r}).header_value(Presented(7, 'f'))\n"
        f"print(JwtKeys([JwtKey.shared({SHARED!r})]).judge(value, 30).token)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "7\n"

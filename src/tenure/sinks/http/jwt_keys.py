"""The keys of JSON web tokens. A key has one algorithm, by its kind, and nobody who presents a token chooses another.

    a secret of at least 32 bytes     HS256     both sides have it, and each can speak for the other
    RSA of at least 2048 bits         RS256     the leader has the private key, a service the public one
    the curve P-256                   ES256     likewise
    Ed25519                           EdDSA     likewise

No error here repeats anything of a key, nor has one for its cause that could.
"""

from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final

from tenure.errors import ConfigError
from tenure.sinks.http.signing import Unwritten, key_bytes

_SHARED_MIN_BYTES: Final = 32  # RFC 7518, 3.2: as many as the hash has
_RSA_MIN_BITS: Final = 2048
_KINDS: Final = f"an RSA key of at least {_RSA_MIN_BITS} bits, one of the curve P-256, or one of Ed25519"


@dataclass(frozen=True, slots=True)
class Key(Unwritten):
    """What signs or verifies, and by which algorithm."""

    algorithm: str
    material: Any = field(repr=False)


def pyjwt() -> ModuleType:
    """Return PyJWT. Raises ConfigError where it is not installed."""
    try:
        import jwt  # noqa: PLC0415  (only who uses it needs it)
    except ImportError:
        raise ConfigError("jwt", "PyJWT", "must be installed: pip install 'tenure[jwt]'") from None
    return jwt


def shared_key(secret: str | bytes) -> Key:
    """Return a secret as a key of HS256. Raises ConfigError for one that is short, or that is a key of another kind."""
    jwt, material = pyjwt(), key_bytes(secret, "secret")
    if len(material) < _SHARED_MIN_BYTES:
        raise ConfigError("secret", "(hidden)", f"must have at least {_SHARED_MIN_BYTES} bytes for HS256")
    try:
        jwt.PyJWS().encode(b"{}", material, "HS256")  # It knows public keys when it sees them.
        is_secret = b"-----BEGIN " not in material
    except jwt.InvalidKeyError:
        is_secret = False
    if not is_secret:
        # Whoever has a public key could sign with it: the old confusion of algorithms, by configuration.
        raise ConfigError("secret", "(hidden)", "must be a secret; keys in PEM are for private() and public()")
    return Key("HS256", material)


def private_key(pem: str | bytes) -> Key:
    """Return a leader's key. Raises ConfigError for what is none."""
    pyjwt()
    serialization, errors = _cryptography()
    material = key_bytes(pem, "pem")
    try:
        found = serialization.load_pem_private_key(material, password=None)
    except (ValueError, TypeError, errors.UnsupportedAlgorithm):
        raise ConfigError("pem", "(hidden)", f"must be a private key in PEM, without a password: {_KINDS}") from None
    return Key(_algorithm_of(found.public_key()), found)


def public_key(pem: str | bytes) -> Key:
    """Return a service's key. Raises ConfigError for what is none, and for a private one."""
    pyjwt()
    serialization, errors = _cryptography()
    material = key_bytes(pem, "pem")
    if b"PRIVATE KEY" in material:
        raise ConfigError("pem", "(hidden)", "must be the public key alone: with the private one a service could lead")
    try:
        found = serialization.load_pem_public_key(material)
    except (ValueError, TypeError, errors.UnsupportedAlgorithm):
        raise ConfigError("pem", "(hidden)", f"must be a public key in PEM: {_KINDS}") from None
    return Key(_algorithm_of(found), found)


def _algorithm_of(public: object) -> str:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # noqa: PLC0415  (it was found before)

    if isinstance(public, rsa.RSAPublicKey) and public.key_size >= _RSA_MIN_BITS:
        return "RS256"
    if isinstance(public, ec.EllipticCurvePublicKey) and isinstance(public.curve, ec.SECP256R1):
        return "ES256"
    if isinstance(public, ed25519.Ed25519PublicKey):
        return "EdDSA"
    raise ConfigError("pem", "(hidden)", f"must be {_KINDS}")


def _cryptography() -> tuple[ModuleType, ModuleType]:
    try:
        from cryptography import exceptions  # noqa: PLC0415  (only who uses it needs it)
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    except ImportError:
        raise ConfigError("jwt", "cryptography", "must be installed: pip install 'tenure[jwt]'") from None
    return serialization, exceptions

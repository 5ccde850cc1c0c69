"""Certificates for engines that speak TLS, made by ``trustme`` for one test."""

import ssl
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tenure.testing.engines.binaries import MissingEngine

if TYPE_CHECKING:
    import trustme


@dataclass(frozen=True)
class KeyPair:
    """The files of one certificate: the chain, and its private key."""

    certificate: Path
    key: Path


class Tls:
    """An authority whose files are in ``folder``. Clusters that are given it take certificates of it, and of nobody else.

    ``ca`` is what clients trust; ``wrong_ca`` is another authority, to see them refuse. ``client`` is a certificate with the
    common name ``client_name``, and ``issue`` makes more of them. With ``clients_need_certificates`` the engine refuses
    clients that have none.
    """

    def __init__(self, folder: Path, *, client_name: str = "root", clients_need_certificates: bool = False) -> None:
        self._folder, self._client_name = folder, client_name
        self.clients_need_certificates = clients_need_certificates
        self._authority = _authority()
        self.ca, self.wrong_ca = folder / "ca.pem", folder / "wrong-ca.pem"
        self._authority.cert_pem.write_to_path(str(self.ca))
        _authority().cert_pem.write_to_path(str(self.wrong_ca))

    @cached_property
    def client(self) -> KeyPair:
        return self.issue(self._client_name)

    def context(self) -> ssl.SSLContext:
        """What a client needs that trusts this authority and is ``client``."""
        context = ssl.create_default_context(cafile=self.ca)
        context.load_cert_chain(self.client.certificate, self.client.key)
        return context

    def issue(self, name: str, *hosts: str) -> KeyPair:
        """A certificate with the common name ``name``, for a server at ``hosts`` or, without any, for a client."""
        made = self._authority.issue_cert(*(hosts or (name,)), common_name=name)
        pair = KeyPair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        pair.certificate.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
        pair.key.touch(mode=0o600)  # PostgreSQL's programs use no key that others could read.
        pair.key.write_bytes(_in_pkcs8(made.private_key_pem.bytes()))
        return pair


def _in_pkcs8(key: bytes) -> bytes:
    """The same key in the only form that ZooKeeper reads; etcd, OpenSSL and Python read it as well."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  (comes with trustme)

    loaded = serialization.load_pem_private_key(key, password=None)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return loaded.private_bytes(*form)


def _authority() -> "trustme.CA":
    try:
        import trustme  # noqa: PLC0415  (nobody who tests without TLS needs it)
    except ImportError:
        raise MissingEngine("the package trustme", "pip install trustme") from None
    return trustme.CA()

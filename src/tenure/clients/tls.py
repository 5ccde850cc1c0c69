"""Certificates from files."""

import ssl
from typing import Final

from tenure.errors import ConfigError

# What OpenSSL calls a certificate that is in order, and of another host: by its name, and by its address.
_ANOTHER_NAME: Final = (62, 64)


def tls_context(ca: str | None = None, cert: str | None = None, key: str | None = None) -> ssl.SSLContext:
    """Make what a TLS connection needs; without ``ca``, the authorities of the operating system are trusted.

    The name of the host is always checked against the certificate.
    """
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError("ca", ca, f"must be a file of certificates in PEM form ({brief(error)})") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if key and not cert:
        raise ConfigError("key", key, "needs the certificate that it belongs to: give cert as well")
    if cert:
        try:
            # A password is never asked for: a prompt would block the event loop of every election.
            context.load_cert_chain(cert, key, password=lambda: "")
        except (OSError, ssl.SSLError) as error:
            rule = (
                f"must be a certificate in PEM form, with its own key beside it or in key, unencrypted ({brief(error)})"
            )
            raise ConfigError("cert", cert, rule) from error
    return context


def _is_for_another_host(error: ssl.SSLCertVerificationError) -> bool:
    """Say whether a certificate is in order, but for another name or address than the one that was asked for."""
    return error.verify_code in _ANOTHER_NAME


def its_certificate(error: ssl.SSLCertVerificationError, mend: str) -> str:
    """Say why a server's certificate is not believed. ``mend`` is what to do about one that we do not trust at all."""
    why = error.verify_message.rstrip(".")
    if _is_for_another_host(error):
        return f"its certificate is for another host ({why}): write the name that it has"
    return f"its certificate is not trusted ({why}): {mend}"


def has_a_certificate(error: ssl.SSLCertVerificationError, *, authority: str, without_name: str) -> str:
    """Say the same of a server that was just named, whose name need not be checked. ``authority`` names an authority, and ``without_name`` checks no name."""
    if _is_for_another_host(error):
        return f"has a certificate for another name: say the one that it has, or {without_name}, which checks no name"
    return f"has a certificate that we do not trust ({error.verify_message}): name its authority by {authority}"


def brief(error: OSError | RuntimeError) -> str:
    """Say what went wrong in a few words.

    RuntimeError: Python has no other word for a system that gives no thread, which looking up a host's name needs. Who makes
    connections takes it for what it is, a server that is not reached just now. It must not end a task that would try again.
    """
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__

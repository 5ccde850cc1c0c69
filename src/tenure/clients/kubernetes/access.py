"""Where an API server is and who asks: what a kubeconfig file, or the pod that we run in, comes to."""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from tenure.clients.kubernetes.credentials import Credentials, TokenFile, trust
from tenure.errors import ConfigError

# Where the kubelet puts what a pod needs to speak with the API server.
POD_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Access:
    """One API server, as one user reaches it."""

    server: str  # without a slash at its end
    credentials: Credentials
    namespace: str  # the one that is meant where none is named
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    proxy: str | None = None
    checked: bool = True  # whether the server's certificate is


def tls_of(authorities: bytes | None, source: str, *, checked: bool = True) -> ssl.SSLContext:
    """Return a TLS context that trusts ``authorities``, or those of the operating system."""
    if authorities is None:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trust(context, authorities, source)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not checked:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def proxy_for(server: str) -> str | None:
    """Return the proxy that the environment names for this server, as kubectl and curl read it."""
    parts = urlsplit(server)
    if parts.hostname is None or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme)


def in_pod(environment: Mapping[str, str] = os.environ, folder: Path = POD_FOLDER) -> Access | None:
    """Return the access that a pod has by its service account. None: this is no pod, or it has none."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port or not (folder / "token").exists():
        return None
    ca = folder / "ca.crt"
    try:
        authorities, namespace = ca.read_bytes(), (folder / "namespace").read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError("service account", folder, f"lacks a file: {error.strerror} ({error.filename})") from error
    tls = tls_of(authorities, str(ca))
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    return Access(server, TokenFile(folder / "token", ca, tls), namespace, tls, proxy=proxy_for(server))

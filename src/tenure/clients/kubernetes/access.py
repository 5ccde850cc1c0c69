"""Where an API server is and who asks: what a kubeconfig file, or the pod that we run in, comes to."""

import ipaddress
import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies

from tenure.clients.kubernetes.credentials import Credentials, TokenFile, trust
from tenure.errors import ConfigError

# Where the kubelet puts what a pod needs to speak with the API server.
POD_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HTTP_PORT, _HTTPS_PORT = 80, 443


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


def is_address(url: str) -> bool:
    """Say whether this is the address of a host that speaks HTTP."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")  # Refuses what cannot be looked up: an empty part, and one of more than 63 characters.
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(host) and port != 0


def proxy_for(server: str) -> str | None:
    """Return the proxy that the environment names for this server, as kubectl reads it. None: it is asked directly."""
    parts, proxies = urlsplit(server), getproxies()
    named = proxies.get(parts.scheme)
    port = parts.port or (_HTTPS_PORT if parts.scheme == "https" else _HTTP_PORT)
    if not named or parts.hostname is None or _is_direct(parts.hostname, port, proxies.get("no", "")):
        return None
    proxy = named if "://" in named else f"http://{named}"
    if not is_address(proxy):
        raise ConfigError(f"{parts.scheme.upper()}_PROXY", named, "must be a proxy, as http://host:port")
    return proxy


def _is_direct(host: str, port: int, exceptions: str) -> bool:
    """Say whether a host is asked without a proxy: by its name, that of a domain of it, its address, or its network."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_names(entry.strip().lower(), host, port, address) for entry in exceptions.split(","))


def _names(entry: str, host: str, port: int, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> bool:
    """Say whether an entry of NO_PROXY names this host."""
    if entry == "*":
        return True
    if address is not None:
        with suppress(ValueError):
            return address in ipaddress.ip_network(entry.strip("[]"), strict=False)
    name, colon, only = entry.rpartition(":")
    if colon and only.isdigit():
        return only == str(port) and _names(name, host, port, address)
    domain = entry.removeprefix("*").removeprefix(".")
    return bool(domain) and (host.endswith(f".{domain}") or (host == domain and entry == domain))


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

"""From a URL to what a store needs: ``kubernetes://namespace?kubeconfig=…&context=…``."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from tenure.clients.kubernetes.access import Access, in_pod
from tenure.clients.kubernetes.kubeconfig import access_of
from tenure.errors import ConfigError, redact

TRANSITIONS, RESOURCE_VERSION = "leasetransitions", "resourceversion"
_OPTIONS: Final = frozenset({"context", "kubeconfig", "timeout", "token"})
_TOKENS: Final = (TRANSITIONS, RESOURCE_VERSION)
_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
# Enough for an API server whose etcd has just lost its leader, and less than most leases.
_TIMEOUT_S: Final = "5"
_TIMEOUT_MAX_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What a URL comes to."""

    access: Access
    namespace: str
    timeout_s: float
    tokens_from: str

    @property
    def address(self) -> str:
        """The URL without options. No secret can be in it."""
        return f"kubernetes://{self.namespace}"


def settings_of(url: str, **options: str) -> Settings:
    """Return what ``url`` means. Raises ConfigError for one that cannot be meant.

    ``kubeconfig`` is a file, or several with colons between; ``context`` is one that it has. Without them, ``KUBECONFIG``
    counts, then the service account of the pod that this runs in, then ``~/.kube/config``. ``timeout`` is the longest that
    one request may take, in seconds. ``token=resourceversion`` takes tokens from resource versions. Each may stand in the
    URL too, as ``?context=…``.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigError("store", redact(url), "is no URL: write kubernetes://namespace") from error
    given = {**dict(parse_qsl(parts.query, keep_blank_values=True)), **options}
    for name in sorted(given.keys() - _OPTIONS):
        known = ", ".join(sorted(_OPTIONS))
        raise ConfigError(
            "store", redact(url), f"has an option {name!r} that kubernetes:// does not know, only {known}"
        )
    if parts.path.strip("/") or parts.fragment:
        raise ConfigError(
            "store", redact(url), "has something behind the namespace: write kubernetes://namespace?option=…"
        )
    access = _access(given.get("kubeconfig"), given.get("context"))
    namespace = parts.netloc or access.namespace
    if not _NAMESPACE.fullmatch(namespace):
        rule = "must be a namespace, of up to 63 small letters, digits and dashes (is the API server in the URL? it belongs into a kubeconfig)"
        raise ConfigError("store", redact(url), rule)
    tokens_from = given.get("token", TRANSITIONS)
    if tokens_from not in _TOKENS:
        raise ConfigError(
            "store",
            redact(url),
            f"has an option that says where tokens come from, which must be {' or '.join(_TOKENS)}",
        )
    return Settings(access, namespace, _timeout_s(given.get("timeout", _TIMEOUT_S)), tokens_from)


def _access(kubeconfig: str | None, context: str | None) -> Access:
    named = kubeconfig or os.environ.get("KUBECONFIG")
    if named:
        files = [Path(name).expanduser() for name in named.split(os.pathsep) if name]
        there = [file for file in files if file.exists()]
        return access_of(there or files, context)
    pod = in_pod()
    if pod is not None and context is None:
        return pod
    own = Path("~/.kube/config").expanduser()
    if own.exists():
        return access_of([own], context)
    rule = "is not in a pod with a service account, so name a file by ?kubeconfig=… in the URL or by KUBECONFIG"
    raise ConfigError("kubeconfig", "none", f"this process {rule}")


def _timeout_s(text: str) -> float:
    try:
        timeout_s = float(text)
    except ValueError:
        timeout_s = 0.0
    if not 0 < timeout_s <= _TIMEOUT_MAX_S:
        raise ConfigError("timeout", text, f"must be a number of seconds up to {_TIMEOUT_MAX_S:g}")
    return timeout_s

"""Kubeconfig files: which cluster and which user a context means, and how that user says who it is.

Read as kubectl does: of several files the first that names a thing has it, and a path in a file begins where the file is.
"""

import base64
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from tenure.clients.kubernetes.access import Access, is_address, proxy_for, tls_of
from tenure.clients.kubernetes.credentials import Credentials, Fixed, Plugin, TokenFile, present, told
from tenure.clients.tls import brief
from tenure.errors import ConfigError

_KINDS: Final = {"contexts": "context", "clusters": "cluster", "users": "user"}
_FILE_MAX_BYTES: Final = 16 * 2**20


class _Part:
    """One table of a file, which knows where it stands."""

    def __init__(self, fields: Any, file: Path, name: str) -> None:
        self.fields: dict[str, Any] = fields if isinstance(fields, dict) else {}
        self.file, self.name = file, name

    def text(self, key: str) -> str | None:
        value = self.fields.get(key)
        if value is not None and not isinstance(value, str):
            raise self.wrong(f"has {key} as a {type(value).__name__}, which must be text")
        return value or None

    def flag(self, key: str) -> bool:
        return self.fields.get(key) is True

    def path(self, key: str) -> Path | None:
        value = self.text(key)
        return None if value is None else self.file.parent / value

    def content(self, key: str) -> bytes | None:
        """Return what ``key-data`` holds, or else the file that ``key`` names."""
        data = self.text(f"{key}-data")
        if data is not None:
            try:
                return base64.b64decode(data, validate=True)
            except ValueError as error:
                raise self.wrong(f"has {key}-data that is not base64: write the file anew") from error
        path = self.path(key)
        if path is None:
            return None
        try:
            return path.read_bytes()
        except OSError as error:
            raise self.wrong(f"names a file as {key} that cannot be read: {path} ({brief(error)})") from error

    def wrong(self, rule: str) -> ConfigError:
        return ConfigError("kubeconfig", self.file, f"{self.name} {rule}")


def access_of(files: Sequence[Path], context: str | None) -> Access:
    """Return the access that a context means; None: the current one."""
    parts: dict[tuple[str, str], _Part] = {}
    current = context
    for file in files:
        table = _load(file)
        if current is None:
            said = table.get("current-context")
            current = said if isinstance(said, str) and said else None
        for kind, key in _KINDS.items():
            entries = table.get(kind) or []
            if not isinstance(entries, list):
                raise ConfigError("kubeconfig", file, f"has {kind} that are no list: see kubectl config view")
            for entry in entries:
                if isinstance(entry, dict) and isinstance(entry.get("name"), str):
                    name = entry["name"]
                    parts.setdefault((key, name), _Part(entry.get(key), file, f"{key} {name!r}"))
    if current is None:
        raise ConfigError("kubeconfig", _names(files), "has no current-context: name one by ?context=… in the URL")
    found = _find(parts, "context", current, files)
    cluster = _find(parts, "cluster", found.text("cluster") or "", files)
    user_name = found.text("user")
    user = _find(parts, "user", user_name, files) if user_name else _Part({}, found.file, "no user")
    return _access(found, cluster, user)


def _load(file: Path) -> dict[str, Any]:
    try:
        import yaml  # noqa: PLC0415  (a pod needs none)
    except ImportError:
        raise ConfigError("kubeconfig", file, "needs a reader of YAML: pip install 'tenure[kubernetes]'") from None
    try:
        if file.stat().st_size > _FILE_MAX_BYTES:
            raise ConfigError("kubeconfig", file, f"must have at most {_FILE_MAX_BYTES // 2**20} MiB")
        table = yaml.safe_load(file.read_bytes())
    except OSError as error:
        raise ConfigError("kubeconfig", file, f"cannot be read ({brief(error)})") from error
    except (yaml.YAMLError, RecursionError):  # Its text may quote a secret.
        raise ConfigError("kubeconfig", file, "is not YAML: see kubectl config view") from None
    if not isinstance(table, dict):
        raise ConfigError("kubeconfig", file, "is no kubeconfig: it should have contexts, clusters and users")
    return table


def _find(parts: dict[tuple[str, str], _Part], key: str, name: str, files: Sequence[Path]) -> _Part:
    part = parts.get((key, name))
    if part is None:
        known = ", ".join(sorted(name for kind, name in parts if kind == key)) or "none"
        raise ConfigError("kubeconfig", _names(files), f"has no {key} {told(name)!r}, only {known}")
    return part


def _access(context: _Part, cluster: _Part, user: _Part) -> Access:
    server = (cluster.text("server") or "").rstrip("/")
    if not is_address(server) or "@" in server:
        raise cluster.wrong("has no server that is like https://host:port")
    checked = not cluster.flag("insecure-skip-tls-verify")
    make_tls = None
    if server.startswith("https:"):
        authorities = cluster.content("certificate-authority")
        make_tls = partial(tls_of, authorities, f"{cluster.file} ({cluster.name})", checked=checked)
    tls = None if make_tls is None else make_tls()
    proxy = cluster.text("proxy-url") or proxy_for(server)
    if proxy is not None and not is_address(proxy):
        raise cluster.wrong("has a proxy-url that is not like http://host:port")
    return Access(
        server,
        _credentials(user, tls, make_tls),
        context.text("namespace") or "default",
        tls,
        cluster.text("tls-server-name"),
        proxy,
        checked,
    )


def _credentials(user: _Part, tls: ssl.SSLContext | None, make_tls: Callable[[], ssl.SSLContext] | None) -> Credentials:
    certificate, key = user.content("client-certificate"), user.content("client-key")
    if certificate is not None and tls is not None:
        present(tls, certificate, key or b"", f"{user.file} ({user.name})")
    plugin = user.fields.get("exec")
    if plugin is not None:
        return _plugin(_Part(plugin, user.file, f"exec of {user.name}"), make_tls)
    path = user.path("tokenFile")
    if path is not None:
        return TokenFile(path)
    for old in ("auth-provider", "username"):
        if old in user.fields and not user.text("token"):
            raise user.wrong(f"uses {old}, which Kubernetes has given up: use a token, a certificate or an exec plugin")
    return Fixed(user.text("token"), f"{user.file} ({user.name})")


def _plugin(part: _Part, make_tls: Callable[[], ssl.SSLContext] | None) -> Plugin:
    command, version = part.text("command"), part.text("apiVersion")
    if command is None or version is None:
        raise part.wrong("needs a command and an apiVersion")
    if part.text("interactiveMode") == "Always":
        raise part.wrong("wants to ask a person (interactiveMode Always): use one that does not")
    arguments, variables = part.fields.get("args") or [], part.fields.get("env") or []
    if not isinstance(arguments, list):
        raise part.wrong("has args that are no list")
    try:
        environment = {str(one["name"]): str(one["value"]) for one in variables}
    except (TypeError, KeyError):
        raise part.wrong("has env that is no list of names and values") from None
    hint = part.text("installHint") or ""
    return Plugin(command, [str(one) for one in arguments], environment, version, hint, part.file.parent, make_tls)


def _names(files: Sequence[Path]) -> str:
    return ", ".join(map(str, files))

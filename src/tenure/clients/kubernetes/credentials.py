"""Who asks: the headers of a request, and how they are kept fresh.

Every kind has two methods. ``headers`` returns what to send; ``renew`` is told what the API server did not accept, and says
whether asking again may help. Many requests are under way at once, so what one of them had refused may be replaced already.
A client certificate is no header: it stands in a TLS context, ``tls`` where it may be replaced while we run.
"""

import asyncio
import json
import os
import re
import signal
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any, Final, Protocol

from tenure.clients.tls import brief
from tenure.errors import ConfigError

# The kubelet replaces a token long before it ends; client-go looks as often.
_REREAD_EVERY_S: Final = 60.0
# A plugin may ask a service in a far country, but not a person.
_PLUGIN_WITHIN_S: Final = 30.0
# A request that is sent now may be judged a little later, by another clock.
_PLUGIN_SPARE_S: Final = 30.0
_PLUGIN_SAYS_MAX_BYTES: Final = 2**20
_PLUGIN: Final = "kubeconfig exec plugin"
_SHOWN_MAX: Final = 200
_TOKEN: Final = re.compile(r"[!-~]+")


class Credentials(Protocol):
    """Who asks."""

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The context with the certificate that says who asks, another one for another certificate. None: that of the access."""
        ...

    async def headers(self, until_s: float | None = None) -> Mapping[str, str]:
        """Return the headers that say who asks. Raises ConfigError if that cannot be found out, and TimeoutError.

        ``until_s`` is how long to wait for it, by the event loop; None: as long as it takes.
        """
        ...

    async def renew(self, refused: Mapping[str, str]) -> bool:
        """Forget these headers, which were refused. True: ask again, they are others now or may be. Raises ConfigError."""
        ...


class Fixed:
    """A token that never changes; or none, where a client certificate says who asks."""

    tls = None

    def __init__(self, token: str | None, source: str) -> None:
        self._headers = bearer(token, "kubeconfig", source) if token else {}

    async def headers(self, until_s: float | None = None) -> Mapping[str, str]:  # noqa: ARG002  (it is at hand)
        return self._headers

    async def renew(self, refused: Mapping[str, str]) -> bool:  # noqa: ARG002  (there is no other)
        return False


class TokenFile:
    """A token that somebody else keeps fresh in a file; and beside it, in a pod, the authorities to trust."""

    tls = None

    def __init__(self, path: Path, ca: Path | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._path, self._ca, self._tls = path, ca, tls
        self._read_at_s = 0.0
        self._headers: Mapping[str, str] = {}
        self._trusted = _content(ca) if ca is not None else b""

    async def headers(self, until_s: float | None = None) -> Mapping[str, str]:  # noqa: ARG002  (it is at hand)
        if not self._headers:
            self._read()
        elif time.monotonic() - self._read_at_s > _REREAD_EVERY_S:
            # What was read before is good until it is refused, also if the file is being written just now.
            with suppress(ConfigError):
                self._read()
        return self._headers

    async def renew(self, refused: Mapping[str, str]) -> bool:
        if self._headers == refused:
            self._read()
        return self._headers != refused

    def _read(self) -> None:
        token = _content(self._path).decode("utf-8", "replace")
        self._headers, self._read_at_s = bearer(token, "token file", self._path), time.monotonic()
        if self._ca is not None and self._tls is not None:
            trusted = _content(self._ca)
            if trusted != self._trusted:
                # Added to those that are trusted already: while authorities change, servers of both are about.
                trust(self._tls, trusted, str(self._ca))
                self._trusted = trusted


@dataclass(slots=True)
class Plugin:
    """A command that says who asks, as kubeconfig files name it under ``exec``."""

    command: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    version: str
    hint: str = ""
    folder: Path = field(default_factory=Path)
    make_tls: Callable[[], ssl.SSLContext] | None = None  # None: the API server speaks no TLS
    tls: ssl.SSLContext | None = None
    _presented: tuple[str, str] | None = None
    _headers: Mapping[str, str] | None = None
    _until_s: float | None = None  # by the time of day, as the plugin says it; None: for as long as it is accepted
    _running: "asyncio.Task[Mapping[str, str]] | None" = None

    async def headers(self, until_s: float | None = None) -> Mapping[str, str]:
        over = self._until_s is not None and time.time() > self._until_s - _PLUGIN_SPARE_S
        if self._headers is not None and not over:
            return self._headers
        # One run for all who ask meanwhile. Whoever has no time left goes, and the run goes on for those who ask again: one
        # that takes longer than a request may take would never come to its end otherwise.
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
            self._running.add_done_callback(lambda run: run.cancelled() or run.exception())
        async with asyncio.timeout_at(until_s):
            return await asyncio.shield(self._running)

    async def renew(self, refused: Mapping[str, str]) -> bool:
        # The very same, not one like it: with a certificate there is no header, before and after it was replaced.
        if self._headers is refused:
            self._headers = None
        return True

    async def _run(self) -> Mapping[str, str]:
        try:
            # Files, where pipes would be kept open by whatever the command leaves behind.
            with TemporaryFile() as said, TemporaryFile() as complaint:
                code = await self._ended(said, complaint)
                for file in (said, complaint):
                    file.seek(0)
                if code:
                    words = complaint.read(_SHOWN_MAX).decode("utf-8", "replace")
                    raise self._wrong(f"ended with code {code}: {words}")
                return self._take(said.read(_PLUGIN_SAYS_MAX_BYTES))
        except OSError as error:
            raise self._wrong(f"needs a temporary file for its answer, and there is none ({brief(error)})") from error

    async def _ended(self, said: IO[bytes], complaint: IO[bytes]) -> int:
        """Run the command to its end, and return its code."""
        asked = {"kind": "ExecCredential", "apiVersion": self.version, "spec": {"interactive": False}}
        environment = {**os.environ, **self.environment, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
        # As kubectl has it: a name with a slash is a path from where the file is, any other is looked for in PATH.
        command = str(self.folder / self.command) if "/" in self.command else self.command
        try:
            process = await asyncio.create_subprocess_exec(
                command,
                *self.arguments,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=said,
                stderr=complaint,
                start_new_session=True,  # so that it ends with whatever it has started
            )
        except (OSError, RuntimeError) as error:  # RuntimeError: no thread was left to wait for its end.
            hint = f"; {self.hint}" if self.hint else ""
            raise self._wrong(f"cannot be started ({brief(error)}): install it{hint}") from error
        try:
            async with asyncio.timeout(_PLUGIN_WITHIN_S):
                return await process.wait()
        except TimeoutError:
            raise self._wrong(f"gave no answer within {_PLUGIN_WITHIN_S:g} s: run it by hand") from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()

    def _take(self, said: bytes) -> Mapping[str, str]:
        try:
            answer = json.loads(said)
            status = answer["status"]
            until = status.get("expirationTimestamp")
            self._until_s = datetime.fromisoformat(until).timestamp() if until else None
            token, cert, key = (status.get(name) for name in ("token", "clientCertificateData", "clientKeyData"))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._wrong("printed something else than an ExecCredential, so run it by hand") from None
        if answer.get("apiVersion") != self.version:
            raise self._wrong(f"speaks {answer.get('apiVersion')}, and the file wants {self.version}: change the file")
        if not token and not cert:
            raise self._wrong("gave neither a token nor a certificate: log in again")
        if cert and self.make_tls is not None and self._presented != (cert, key):
            # Connections that are open go on showing what they were made with, and are refused once that has ended. Those
            # of another context are others.
            tls = self.make_tls()
            present(tls, str(cert).encode(), str(key).encode(), self.command)
            self.tls, self._presented = tls, (cert, key)
        self._headers = bearer(str(token), _PLUGIN, self.command) if token else {}
        return self._headers

    def _wrong(self, rule: str) -> ConfigError:
        return ConfigError(_PLUGIN, self.command, rule)


def bearer(token: str, setting: str, source: object) -> Mapping[str, str]:
    """Return the header for a token. Raises ConfigError, of where the token is from, for one that no header can hold."""
    token = token.strip()  # A block of YAML, and a file, ends with a line break.
    if not _TOKEN.fullmatch(token):
        raise ConfigError(setting, source, "should hold a token, which is one line of letters, digits and signs")
    return {"Authorization": f"Bearer {token}"}


def trust(context: ssl.SSLContext, certificates: bytes, source: str) -> None:
    """Trust the authorities in ``certificates``; ``source`` is where they come from."""
    try:
        context.load_verify_locations(cadata=certificates.decode("ascii"))
    except (ValueError, ssl.SSLError) as error:
        why = brief(error) if isinstance(error, ssl.SSLError) else "not text"
        raise ConfigError("certificate authority", source, f"must be certificates in PEM form ({why})") from error


def present(context: ssl.SSLContext, certificate: bytes, key: bytes, source: str) -> None:
    """Present this client certificate. OpenSSL reads it from files only, so it lies in one of our own for a moment."""
    try:
        with TemporaryDirectory() as folder:
            file = Path(folder) / "client.pem"
            file.touch(mode=0o600)
            file.write_bytes(certificate + b"\n" + key)
            # A password is never asked for: a prompt would block the event loop of every election.
            context.load_cert_chain(file, password=lambda: "")
    except ssl.SSLError as error:
        rule = f"must be a certificate in PEM form with its own key, unencrypted ({brief(error)})"
        raise ConfigError("client certificate", source, rule) from error
    except OSError as error:
        rule = f"needs a temporary file for a moment, and there is none ({brief(error)})"
        raise ConfigError("client certificate", source, rule) from error


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError("file", path, f"cannot be read ({brief(error)})") from error


def told(value: Any) -> str:
    """Return a part of a file as people may be shown it."""
    return str(value)[:_SHOWN_MAX]

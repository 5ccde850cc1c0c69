"""Where a sidecar listens: an address of this machine, or a unix socket that only its user can open."""

import os
import socket
import stat
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from tenure.errors import ConfigError

DEFAULT: Final = "127.0.0.1:8087"
_OPTION: Final = "--listen"
_PORT_MAX: Final = 65535
_BACKLOG: Final = 2048
_UNIX_PATH_MAX: Final = 107  # what fits into the kernel's struct, with the zero at its end
# A client whose machine has died says nothing: its connection is given up after about 20 s without a sign of life.
# What the kernel keeps for one who does not read. By itself it would be megabytes, and who is slow would be noticed late.
_SEND_BUFFER_BYTES: Final = 64 * 1024
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 20_000))


@dataclass(frozen=True, slots=True)
class Place:
    """Where to listen: a host and a port, or the path of a unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""
    made: tuple[int, int, int] | None = field(default=None, compare=False)  # which file the socket is

    @property
    def is_private(self) -> bool:
        """Whether nobody but this machine can reach it."""
        if self.path or self.host.lower() == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


def place_of(text: str) -> Place:
    """Return where ``HOST:PORT``, ``:PORT`` or ``unix:/path`` is. Raises ConfigError."""
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path.startswith("/") or "\0" in path or len(os.fsencode(path)) > _UNIX_PATH_MAX:
            raise ConfigError(
                _OPTION, text[:80], f"must be unix: and an absolute path of at most {_UNIX_PATH_MAX} bytes"
            )
        return Place(path=path)
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdigit() or int(port[:6]) > _PORT_MAX or " " in host:
        raise ConfigError(_OPTION, text[:80], "must be HOST:PORT, :PORT or unix:/path")
    return Place(host or "127.0.0.1", int(port))


def listen(place: Place) -> tuple[socket.socket, Place]:
    """Return a socket that listens there, and where that is: port 0 is any that is free. Raises ConfigError."""
    try:
        if place.path:
            return _listen_unix(place.path), replace(place, made=_file_at(place.path))
        found = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        opened = socket.socket(family, kind, protocol)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
            for name, value in _KEEPALIVE:  # Whoever is accepted has the same.
                if hasattr(socket, name):
                    opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            opened.bind(address)
            opened.listen(_BACKLOG)
        except OSError:
            opened.close()
            raise
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(_OPTION, place, f"cannot be listened on ({why}): choose another") from None
    return opened, Place(place.host, opened.getsockname()[1])


def forget(place: Place) -> None:
    """Remove the file of a unix socket, unless it is somebody else's: a sidecar that was started while this one was leaving."""
    with suppress(OSError):
        if place.path and place.made == _file_at(place.path):
            Path(place.path).unlink()


def _file_at(path: str) -> tuple[int, int, int]:
    found = Path(path).lstat()
    return found.st_dev, found.st_ino, found.st_mtime_ns  # The number alone is given to the next one at once.


def _listen_unix(path: str) -> socket.socket:
    _remove_left_over(path)
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Nobody else may write to it, from its first moment on: before chmod there would be one in which they could.
        before = os.umask(0o177)
        try:
            opened.bind(path)
        finally:
            os.umask(before)
        opened.listen(_BACKLOG)
    except OSError:
        opened.close()
        raise
    return opened


def _remove_left_over(path: str) -> None:
    """Remove the socket of a process that was killed. One at which somebody listens stays, and binding fails."""
    try:
        is_socket = stat.S_ISSOCK(Path(path).lstat().st_mode)
    except OSError:
        return
    if not is_socket:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink()

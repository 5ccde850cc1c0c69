"""What systemd is told about this process: the protocol of ``sd_notify``, which is datagrams with lines in them.

A standby is ready too: it does what it was started for. Were it not, systemd would end it after ``TimeoutStartSec``.
Every datagram says all that is so, so one that was lost is made good by the next.
"""

import asyncio
import os
import socket
from collections.abc import MutableMapping
from typing import Final

from tenure.errors import ConfigError

_SOCKET: Final = "NOTIFY_SOCKET"
# What is ours, and must not reach the command: it would speak to systemd in our name.
_OURS: Final = (_SOCKET, "WATCHDOG_USEC", "WATCHDOG_PID")
_STATUS_MAX: Final = 300
_AGAIN_S: Final = 1.0
_PINGS_PER_WATCHDOG: Final = 2  # as its manual asks for


class Systemd:
    """Who started us, if that was systemd and we were asked to tell it. Without ``NOTIFY_SOCKET`` it says nothing."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        """Read what systemd has said in ``environment``, and take it out. Raises ConfigError if it cannot be meant."""
        where, period_us, whose = (environment.pop(name, "") for name in _OURS)
        if where and not where.startswith(("/", "@")):
            raise ConfigError(_SOCKET, where, "must begin with / or @: it is set by systemd")
        if period_us and not (period_us.isascii() and period_us.isdigit() and int(period_us)):
            raise ConfigError("WATCHDOG_USEC", period_us, "must be a number of microseconds: it is set by systemd")
        self._address = f"\0{where[1:]}" if where.startswith("@") else where
        mine = whose in {"", str(os.getpid())}
        self._ping_s = int(period_us) / 1e6 / _PINGS_PER_WATCHDOG if period_us and mine else None
        self._state: dict[str, str] = {}
        self._socket: socket.socket | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def open(self) -> None:
        """Say that we are ready, and go on saying that we live. Raises ConfigError if nobody listens."""
        if not self._address:
            return
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            self._socket.connect(self._address)
        except OSError as error:
            where = f"@{self._address[1:]}" if self._address.startswith("\0") else self._address
            raise ConfigError(_SOCKET, where, f"cannot be reached: {error.strerror or error}") from None
        self._state |= {"READY": "1", "MAINPID": str(os.getpid())}
        self._send()
        self._ping()

    def say(self, text: str) -> None:
        """Show this as the status."""
        self._state["STATUS"] = "".join(letter if letter.isprintable() else " " for letter in text)[:_STATUS_MAX]
        self._send()

    def stopping(self) -> None:
        """Say that the end has begun."""
        self._state["STOPPING"] = "1"
        self._send()

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ping(self) -> None:
        if self._ping_s is not None:
            self._send(("WATCHDOG", "1"))
            self._later("ping", self._ping_s)

    def _send(self, *more: tuple[str, str]) -> None:
        if self._socket is None:
            return
        try:
            self._socket.send("\n".join(f"{name}={value}" for name, value in (*self._state.items(), *more)).encode())
        except OSError:  # Its queue is full, or it is being started anew. It must not keep us from our work.
            self._later("send", _AGAIN_S)

    def _later(self, what: str, in_s: float) -> None:
        if what in self._timers:
            self._timers[what].cancel()
        call = self._ping if what == "ping" else self._send
        self._timers[what] = asyncio.get_running_loop().call_later(in_s, call)

"""Ports for engines: free, and ours alone, whoever else looks for some on this machine at the same time.

A port number is claimed by holding the UDP port of that number, at an address of the loopback that no engine uses: Consul
needs its own UDP ports, the others only TCP. No lock file is needed: the kernel gives a number to one process, for all users
alike, and takes it back when that process dies.

All numbers are below 32768. From there on the kernel gives ports to outgoing connections: a node that was stopped could
find its own port taken by a client of its neighbour when it starts again.
"""

import random
import socket
import sys

from tenure.errors import ConfigError

_FIRST, _END = 12_000, 31_000
# Only Linux has more than one address there without being asked. Elsewhere a claim is in the way of Consul, which fails to start.
_HELD_AT = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"


class Claim:
    """One port number that is ours until ``release``."""

    def __init__(self, port: int) -> None:
        """Claim ``port``; raises OSError if it is another's."""
        self.port = port
        self._held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._held.bind((_HELD_AT, port))
        except OSError:
            self._held.close()
            raise

    def release(self) -> None:
        self._held.close()


def claim_ports(count: int, host: str) -> list[Claim]:
    """Claim ``count`` port numbers on which nobody listens at ``host``, by TCP or UDP."""
    claims: list[Claim] = []
    for port in random.sample(range(_FIRST, _END), _END - _FIRST):
        if len(claims) == count:
            return claims
        try:
            claim = Claim(port)
        except OSError:
            continue
        if _is_free(host, port):
            claims.append(claim)
        else:
            claim.release()
    for claim in claims:
        claim.release()
    raise ConfigError("host", host, f"no {count} ports are free between {_FIRST} and {_END}")


def _is_free(host: str, port: int) -> bool:
    kinds = [socket.SOCK_STREAM] if host == _HELD_AT else [socket.SOCK_STREAM, socket.SOCK_DGRAM]
    return all(_can_bind(kind, host, port) for kind in kinds)


def _can_bind(kind: socket.SocketKind, host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, kind) as probe:
        if kind is socket.SOCK_STREAM:
            # As the engines do it: a connection that ended a minute ago keeps nobody from listening.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True

"""HTTP/1.1 for engines that speak it: one request, one deadline, and what became of it. Runs on asyncio.

``client`` has the connections and their deadlines, ``reaching`` makes them, ``connection`` is one of them with one request at a
time, ``encryption`` and ``answers`` are its bytes, without a network. Why it is ours: docs/adr/0026-http-of-our-own.md.
"""

from tenure.clients.http.answers import Answer
from tenure.clients.http.client import Http
from tenure.clients.http.outcomes import Lost, NotSent, Silent

__all__ = ["Answer", "Http", "Lost", "NotSent", "Silent"]

"""The service's side of fenced HTTP: middleware that lets a request through only if its token is not stale.

What it cannot promise. The mark is compared, and raised, before the handler runs; the handler's own write is another step. So
a request of an old leader that has passed the check may still be writing when a new one comes. Two things close that gap:
- The handler hands the token on to the sink of its database (``scope["tenure"]``, ``environ["tenure"]``), which compares it
  in the same step as the write. This closes it altogether.
- A new leader seals before it leads (``HttpSink``). The seal raises the mark and waits until no older request is under way in the
  process that it reaches. This closes it for a service of one process, and for what its handlers do before they return.

What it does promise: once the mark is raised, nothing older passes, in any process that shares the mark; and the mark is raised
durably before a handler sees a new token. A server that dies in between leaves the mark ahead of the data, which refuses more
and never less.
"""

from tenure.web.asgi import FencedASGI
from tenure.web.guard import Guard
from tenure.web.leader import LeaderASGI
from tenure.web.orders import OrdersWSGI
from tenure.web.routes import Route
from tenure.web.serving import serving
from tenure.web.wsgi import FencedWSGI

__all__ = ["FencedASGI", "FencedWSGI", "Guard", "LeaderASGI", "OrdersWSGI", "Route", "serving"]

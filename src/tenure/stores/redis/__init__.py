"""Redis as an engine, best effort: one server, a primary that Sentinels name, or several by themselves (Redlock).

``scripts`` is what is done inside Redis; ``records`` knows what it means; ``hearing`` and ``lookout`` wake who waits; ``store``
is one Redis, and ``redlock`` a majority of them, over ``voting``. The client below is ``tenure.clients.redis``.
"""

from tenure.clients.redis import RedisClient, settings_of
from tenure.stores.redis.store import RedisStore

__all__ = ["RedisStore", "from_url"]


def from_url(url: str, **options: str) -> RedisStore:
    """Return a store for ``redis://host/db``, ``rediss://`` or ``redis+sentinel://h1,h2,h3/service``; see ``settings_of``."""
    return RedisStore(RedisClient(settings_of(url, **options)))

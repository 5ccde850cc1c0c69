"""A client of Redis of our own: it sends a command once, and tells apart what was not sent, refused and unknown."""

from tenure.clients.redis.client import About, RedisClient, Script
from tenure.clients.redis.settings import Settings, settings_of

__all__ = ["About", "RedisClient", "Script", "Settings", "settings_of"]

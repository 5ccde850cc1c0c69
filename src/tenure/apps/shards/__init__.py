"""Shards: an election for each part of the work, and a fair share of them for every member that is alive."""

from tenure.apps.shards.holding import Shard
from tenure.apps.shards.running import Shards

__all__ = ["Shard", "Shards"]

"""A document of settings that many read: anybody proposes a new edition, and the leader in office applies it."""

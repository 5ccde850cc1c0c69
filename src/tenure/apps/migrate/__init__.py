"""Migrations of a database, each step applied once: by one runner at a time, and recorded in the transaction that applies it."""

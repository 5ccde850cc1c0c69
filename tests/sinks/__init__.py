"""Sinks on real servers."""

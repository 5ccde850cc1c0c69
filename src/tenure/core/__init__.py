"""The machine without IO: events in, effects out. See ``candidate``."""

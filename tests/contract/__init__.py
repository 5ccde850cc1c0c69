"""The contracts, kept by what needs no server, and broken on purpose."""

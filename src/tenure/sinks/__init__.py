"""Where the promise is kept: a sink accepts a write iff its token is not older than one it has seen."""

"""The office: runs candidates over real IO, on one background thread per process."""

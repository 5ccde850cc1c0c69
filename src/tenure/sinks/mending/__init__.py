"""Looking at fences and lowering one, for each kind of place that keeps them. ``tenure.sinks.repair`` picks."""

"""Where an app keeps its record: tables in a database that is a sink."""

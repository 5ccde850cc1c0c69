"""Programs that are made of elections."""

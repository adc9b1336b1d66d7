"""Running writers of a sink."""

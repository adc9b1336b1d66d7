"""Shards of a fleet as a client finds them."""

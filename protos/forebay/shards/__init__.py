"""Mapping of sinks to shards, which brokers and clients compute alike."""

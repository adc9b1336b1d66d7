"""Replay: pages and records that are read again without being settled."""

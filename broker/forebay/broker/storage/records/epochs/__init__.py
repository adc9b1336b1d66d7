"""Kinds of stored values of exactly-once writing: stages, producers and epochs."""

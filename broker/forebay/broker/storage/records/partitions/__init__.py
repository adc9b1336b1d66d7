"""Kinds of stored values of one partition, and of a subscription on it."""

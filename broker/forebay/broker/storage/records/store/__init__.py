"""Kinds of stored values that belong to the store as a whole."""

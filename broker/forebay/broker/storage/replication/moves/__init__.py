"""Moves of a store: from a data directory into a journal, and back."""

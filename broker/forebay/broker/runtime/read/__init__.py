"""Reads: entries and bodies of pages, replay, read-ahead, failing reads."""

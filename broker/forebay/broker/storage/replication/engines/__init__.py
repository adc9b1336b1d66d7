"""Engines of a journal, one file each."""

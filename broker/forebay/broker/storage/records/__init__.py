"""Stored values: keys, kinds and encodings."""

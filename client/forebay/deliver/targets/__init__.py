"""Targets of a deliverer, one file or folder per target, and their registry."""

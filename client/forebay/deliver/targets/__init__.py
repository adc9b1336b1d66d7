"""Targets of a deliverer, one file per target, and their registry."""

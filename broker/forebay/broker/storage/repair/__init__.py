"""Verification, inspection and repair of a store."""

"""Checks by the part of the contract."""

"""Connections of the driver to the broker, and their cache."""

"""Shared resources: memory, disk reserve, connections, background work."""

"""Backups of the running broker: their order of events, and their schedule."""

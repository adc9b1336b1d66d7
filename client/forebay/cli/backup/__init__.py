"""Backups: made by a running broker, listed, verified, restored and deleted without one."""

"""Backups of a store: consistent snapshots, their transfer to a target, and the way back."""

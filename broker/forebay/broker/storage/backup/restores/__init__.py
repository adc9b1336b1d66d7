"""Restore of backups, and the files that it and other loads write."""

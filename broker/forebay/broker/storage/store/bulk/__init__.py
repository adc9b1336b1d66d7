"""Bulk files: many pages per file, each file written once."""

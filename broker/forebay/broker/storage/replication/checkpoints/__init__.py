"""Checkpoints of a journal: copies of a replica that replace the records below them."""

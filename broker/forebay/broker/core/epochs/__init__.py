"""Epochs: staged parts, commits, and their producers."""

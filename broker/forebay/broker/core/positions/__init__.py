"""Saved positions of named consumers."""

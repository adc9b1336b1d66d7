"""Schemas of rows: Spark's, Arrow's, and the matching of columns by name."""

"""Kinds of stored pages, of their index, and of the ledgers of pages without an index entry."""

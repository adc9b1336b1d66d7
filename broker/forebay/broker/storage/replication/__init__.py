"""Replication: each batch of a store is appended to a journal elsewhere before it is applied here."""

"""Kinds of stored values of a sink: its settings, schemas, subscriptions and writers."""

"""Publishing: limits of a sink, and idempotent writers."""

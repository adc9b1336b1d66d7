"""Saved positions of named consumers: completion, schedule, start, owner epochs and stores."""

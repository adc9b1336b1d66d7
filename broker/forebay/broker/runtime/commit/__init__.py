"""Group commit: the way of every write to the store, and the reclaim of disk space."""

"""Group commit of all writes to the store, and the reclaim of disk space."""

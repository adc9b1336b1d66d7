"""Running sinks: buffer, memory tier, retention, purge, statistics and repair."""

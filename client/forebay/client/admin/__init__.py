"""Administration: sinks, subscriptions, schemas, epochs, dead letters and resends."""

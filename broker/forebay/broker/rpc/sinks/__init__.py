"""SinkService: sinks, subscriptions, statistics, gaps."""

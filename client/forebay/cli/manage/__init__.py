"""Commands that change sinks, subscriptions, dead letters and tokens."""

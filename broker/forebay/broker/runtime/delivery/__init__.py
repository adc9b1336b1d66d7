"""Running subscriptions: consumers, ownership, leases and pulls."""

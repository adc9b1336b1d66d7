"""Running epochs: staging, commits, and the sweep of old ones."""

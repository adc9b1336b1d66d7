"""Running dead-letter sinks: moving, listing, redrive."""

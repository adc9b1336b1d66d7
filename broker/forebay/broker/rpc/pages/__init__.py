"""Pages between the wire and the core."""

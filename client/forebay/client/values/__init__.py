"""Values that users hold, and their conversion from and to the wire."""

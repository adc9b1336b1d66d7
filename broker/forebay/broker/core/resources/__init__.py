"""Bounds of what a broker shares: connections and the memory of streams."""

"""Actions of the console: each is previewed, and done when it was confirmed."""

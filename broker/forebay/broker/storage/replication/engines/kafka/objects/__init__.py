"""Objects by name in the messages of a topic."""

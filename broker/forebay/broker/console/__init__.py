"""Console: web pages of a broker, for people who watch it. Reads the runtime; changes nothing."""

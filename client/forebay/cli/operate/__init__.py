"""Commands that run something: a broker, a deliverer, a publisher, the demo."""

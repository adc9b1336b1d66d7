"""Dead letters: what they hold, their transfer to another sink, and the circuit breaker."""

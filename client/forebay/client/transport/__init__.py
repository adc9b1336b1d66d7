"""Transport: channels, TLS, retries and the diagnosis of unreachable brokers."""

"""Telemetry of the broker: its metrics and spans, and the exporters that send them."""

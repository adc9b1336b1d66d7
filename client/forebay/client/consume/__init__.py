"""Consuming: subscribers, deliveries, acks and pulls."""

"""Delivery of one partition to its consumer: in flight, answers, redelivery, leases."""

"""Removal of records and pages of a sink: trimming, retention, expiry, purges and drops."""

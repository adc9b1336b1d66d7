"""Batches: consecutive records of one partition that are sent to a target together."""

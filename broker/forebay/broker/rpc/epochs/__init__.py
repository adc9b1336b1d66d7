"""EpochService: tickets and commits."""

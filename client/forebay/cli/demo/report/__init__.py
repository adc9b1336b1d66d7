"""State of the run: samples, progress, chart and reconciliation."""

"""Commands that read: lag, gaps, records, and what became of a record."""

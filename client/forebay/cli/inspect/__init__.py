"""Commands that read: lag, gaps, records, and explanations of records."""

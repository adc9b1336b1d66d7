"""Access control: principals, their rights per sink, their credentials and their rate limits."""

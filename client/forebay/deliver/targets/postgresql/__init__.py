"""Target that writes rows to PostgreSQL."""

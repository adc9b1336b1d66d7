"""Pages of the console: one module per page, and the table of their paths."""

"""Writing: from rows to staged pages, and the commit of an epoch."""

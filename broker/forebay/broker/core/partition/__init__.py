"""One partition: its log of pages, the cursors on it, gaps, ages and reservations."""

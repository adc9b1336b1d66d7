"""Decides: what a buffer does with records, cursors and failures. No I/O, no clock, no threads."""

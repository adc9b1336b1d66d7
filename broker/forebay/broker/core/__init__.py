"""Rules of a buffer for records, cursors and failures. No I/O, no clock, no threads."""

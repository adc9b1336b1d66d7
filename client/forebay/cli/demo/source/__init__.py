"""Input of the demo: live readings or files, as records in a folder."""

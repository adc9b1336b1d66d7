"""Values of backups."""

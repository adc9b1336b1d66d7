"""Reading of what consumers could not process."""

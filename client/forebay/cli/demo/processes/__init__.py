"""Child processes of the demo."""

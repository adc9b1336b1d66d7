"""Publishing: pages, windows, and streams that survive a broken connection."""

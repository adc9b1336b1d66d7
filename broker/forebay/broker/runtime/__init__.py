"""Runtime: clocks, the commit thread, readers and timers. The only layer with threads and tasks."""

"""Runtime: clocks, the commit thread, readers and timers. The only layer with threads, tasks and the time."""

"""Runs: clocks, the commit thread, readers and timers. The only place with threads, tasks and now()."""

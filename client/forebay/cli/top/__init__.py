"""`forebay top`: a live screen of sinks, deliveries and connections.

A thread collects figures, the screen is made from them and the pressed keys alone, and a context manager restores the
terminal.
"""

"""Words for the state of sinks and subscriptions, shared by the broker's pages and the commands.

``flow`` derives them from the statistics. The package needs the standard library only.
"""

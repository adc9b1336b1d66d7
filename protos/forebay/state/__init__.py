"""Words for the state of sinks and subscriptions, shared by the broker's pages and the commands.

``flow`` derives them from the statistics, ``attention`` ranks what needs attention, ``numbers`` writes numbers as text.
The package needs the standard library only.
"""

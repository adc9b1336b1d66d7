"""Demo: a Spark job through an outage of its remote system and kills of the broker.

Every part is a process of its own, as in production; this package starts and disturbs the processes, and reconciles
the records afterwards.
"""

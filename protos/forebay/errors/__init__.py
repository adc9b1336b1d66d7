"""Errors shared by broker, client and Spark: one table of reasons with status, text, advice, facts.

``reasons`` is the table. The package needs the standard library only.
"""

"""Error that Forebay raises towards Spark.

Spark forwards the text of an exception, not its class, and shows the end of it last. Therefore there is one class; its
first lines state the problem and its last line the remedy.
"""

from __future__ import annotations


class ForebaySparkError(Exception):
    """A read or write cannot continue until the user applies the remedy in the last line."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}\n{self.remedy}"

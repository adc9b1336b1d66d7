"""The one error that Forebay raises towards Spark.

Spark passes on the text of an exception, never its class, and shows the end of it last. So there is one class, its
first lines say what is wrong and its last line says what to do.
"""

from __future__ import annotations


class ForebaySparkError(Exception):
    """A write or a read cannot go on until somebody does what the last line says."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}\n{self.remedy}"

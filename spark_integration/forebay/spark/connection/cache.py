"""Cache of the broker's answers in a process that Spark reuses.

Spark creates a new writer for every micro-batch of a stream. With the cache a running query does not call the broker
each time, and continues during an outage, which its publishers wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from forebay.client import errors
from forebay.spark.options.write import Target
from forebay.spark.remedies import explained

FRESH_S: Final = 30.0
"""Maximum age of a cached answer that is used without a call."""

REFRESH_S: Final = 1.0
"""Time to wait for a known broker before the cached answer is used."""

K = TypeVar("K")
V = TypeVar("V")


class BrokerCache(Generic[K, V]):
    """Answers by key, for the life of one process. Owned by one thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` is monotonic, in seconds."""
        self._clock = clock
        self._answers: dict[K, tuple[V, float]] = {}

    def get(
        self,
        key: K,
        target: Target,
        load: Callable[[float], V],
        *,
        doing: str,
        is_valid: Callable[[V], bool] = lambda _: True,
    ) -> V:
        """Return the answer: a fresh one, otherwise that of ``load(patience_s)``; an old one during an outage.

        ``is_valid`` may reject a fresh answer. Raises `ForebaySparkError`; ``doing`` is the verb of its text.
        """
        known = self._answers.get(key)
        if known is not None and self._clock() - known[1] < FRESH_S and is_valid(known[0]):
            return known[0]
        try:
            answer = load(target.connect_timeout_s if known is None else REFRESH_S)
        except (errors.BrokerUnavailable, errors.DeadlineExceeded) as error:  # closed, or without an answer
            if known is None:
                raise explained(error, target, doing=doing) from error
            return known[0]
        except errors.ForebayError as error:
            self._answers.pop(key, None)
            raise explained(error, target, doing=doing) from error
        self._answers[key] = answer, self._clock()
        return answer

    def invalidate(self, key: K) -> bool:
        """Remove an answer; return False if there was none."""
        return self._answers.pop(key, None) is not None

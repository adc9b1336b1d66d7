"""Bounded retries with back-off after transient failures."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from forebay.broker.storage.errors import StoreShortage, StoreUnreadable

_log: Final = logging.getLogger(__name__)
_T = TypeVar("_T")

START_READ_DELAYS_S: Final = (0.05, 0.2, 0.5, 1.0, 2.0)
"""Pauses between the retries of a start; nothing is served yet, so the thread may wait."""

SHORTAGE_DELAYS_S: Final = (0.01, 0.05, 0.2, 0.5, *[1.0] * 60)
"""Pauses of a change during a shortage: about a minute, then the store is fenced."""


def patiently(
    call: Callable[[], _T],
    delays_s: Sequence[float],
    *,
    passing: type[StoreUnreadable | StoreShortage],
    sleep: Callable[[float], None] = time.sleep,
) -> _T:
    """Return the result of ``call``; retry it after a ``passing`` error, once per delay. Blocks.

    Raises the last error if all retries failed, and any other error at once.
    """
    for tries, delay_s in enumerate(delays_s, 1):
        try:
            return call()
        except passing as failure:
            if tries == 1:
                _log.warning("store is retried after a transient failure cause=%s", failure)
        sleep(delay_s)
    return call()

"""Settings of a deliverer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from forebay.deliver.batches.limits import BatchLimits

CREDIT_RECORDS_MIN: Final = 20_000
CREDIT_RECORDS_MAX: Final = 10_000_000
CREDIT_BYTES_MIN: Final = 16 << 20
CREDIT_BYTES_MAX: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class DelivererSettings:
    """Settings of one deliverer."""

    subscription: str = "default"
    """Subscription to deliver."""

    consumer_id: str | None = None
    """Consumer name in the sink's statistics; ``None`` is a random one."""

    batch: BatchLimits | None = None
    """Upper bounds of a batch; ``None`` uses those of the target, or else the defaults."""

    concurrency: int = 8
    """Number of threads: the partitions delivered at the same time, each in order. 1 to 256."""

    credit_records: int | None = None
    """Maximum number of records in flight.

    ``None`` is enough for two batches of each thread, at least 20,000.
    """

    credit_bytes: int | None = None
    """Maximum of bytes in flight. ``None`` is twice the maximum of a batch, at least 16 MiB."""

    retry_delay_max_s: float = 86_400.0
    """Maximum delay that a target can request; longer ones are cut to it. Up to 24 h."""

    stop_grace_s: float = 20.0
    """Time that `Deliverer.stop` waits for sends in progress."""

    target: str = ""
    """Name of the target, shown with the connection; empty for the name of its class."""

    resend_batch: BatchLimits | None = None
    """Upper bounds of a batch for the target of redelivered records; ``None`` uses ``batch``."""

    def __post_init__(self) -> None:
        """Reject values that are out of bounds."""
        _within("concurrency", self.concurrency, 1, 256)
        if self.credit_records is not None:
            _within("credit_records", self.credit_records, 1, CREDIT_RECORDS_MAX)
        if self.credit_bytes is not None:
            _within("credit_bytes", self.credit_bytes, 1, CREDIT_BYTES_MAX)
        _within("retry_delay_max_s", self.retry_delay_max_s, 0.0, 86_400.0)
        _within("stop_grace_s", self.stop_grace_s, 0.0, 3600.0)

    def credit(self, limits: Sequence[BatchLimits]) -> tuple[int, int]:
        """Return the maximum of records and of bytes in flight.

        ``limits`` are those of the batches of each target.
        """
        records, size = self.credit_records, self.credit_bytes
        if records is None:
            records = 2 * self.concurrency * max(one.records_max for one in limits)
            records = min(max(records, CREDIT_RECORDS_MIN), CREDIT_RECORDS_MAX)
        if size is None:
            size = min(max(2 * max(one.bytes_max for one in limits), CREDIT_BYTES_MIN), CREDIT_BYTES_MAX)
        return records, size


def _within(name: str, value: float, lowest: float, highest: float) -> None:
    if not lowest <= value <= highest:
        raise ValueError(f"{name} = {value}: must be {lowest} to {highest}")

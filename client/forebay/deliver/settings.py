"""Settings of a deliverer."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.deliver.batches.limits import BatchLimits


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

    credit_records: int = 20_000
    """Maximum number of records in flight."""

    credit_bytes: int = 16 << 20
    """Maximum of bytes in flight."""

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
        _within("credit_records", self.credit_records, 1, 10_000_000)
        _within("credit_bytes", self.credit_bytes, 1, 1 << 30)
        _within("retry_delay_max_s", self.retry_delay_max_s, 0.0, 86_400.0)
        _within("stop_grace_s", self.stop_grace_s, 0.0, 3600.0)


def _within(name: str, value: float, lowest: float, highest: float) -> None:
    if not lowest <= value <= highest:
        raise ValueError(f"{name} = {value}: must be {lowest} to {highest}")

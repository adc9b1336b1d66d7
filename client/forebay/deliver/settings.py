"""What a user tunes about a deliverer."""

from __future__ import annotations

from dataclasses import dataclass, field

from forebay.deliver.batch import BatchLimits


@dataclass(frozen=True, slots=True)
class DelivererSettings:
    """Settings of one deliverer."""

    subscription: str = "default"
    """Subscription of the sink to deliver for."""

    consumer_id: str | None = None
    """Name shown in the sink's statistics; ``None`` takes a random one."""

    batch: BatchLimits = field(default_factory=BatchLimits)
    """How much goes to the target at once."""

    concurrency: int = 8
    """Most partitions sent at the same time, each in order: the number of threads. 1 to 256."""

    credit_records: int = 20_000
    """Most records taken from the broker and not yet settled."""

    credit_bytes: int = 16 << 20
    """Most bytes taken from the broker and not yet settled."""

    retry_delay_max_s: float = 3600.0
    """Longest delay that a target can ask for; longer ones are cut to it. Up to 24 h."""

    stop_grace_s: float = 20.0
    """How long `Deliverer.stop` lets sends that are under way finish."""

    def __post_init__(self) -> None:
        """Refuse what could not work, naming the setting and what is allowed."""
        _within("concurrency", self.concurrency, 1, 256)
        _within("credit_records", self.credit_records, 1, 10_000_000)
        _within("credit_bytes", self.credit_bytes, 1, 1 << 30)
        _within("retry_delay_max_s", self.retry_delay_max_s, 0.0, 86_400.0)
        _within("stop_grace_s", self.stop_grace_s, 0.0, 3600.0)


def _within(name: str, value: float, lowest: float, highest: float) -> None:
    if not lowest <= value <= highest:
        raise ValueError(f"{name} is {value}; {lowest} to {highest} is allowed")

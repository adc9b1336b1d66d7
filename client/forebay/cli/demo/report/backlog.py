"""Figures of the backlog: the most records that waited, and the time to drain them after the outage."""

from __future__ import annotations

from forebay.cli.demo.report.samples import History, Sample


def peak_waiting(history: History) -> int:
    """Return the largest number of records that waited in the broker."""
    return max((sample.buffered for sample in history.samples), default=0)


def drain_s(history: History) -> float | None:
    """Return the time from the end of the outage until no more records wait than before it.

    None without an outage, or if that was not reached.
    """
    samples = history.samples
    spans = down_spans(samples, "target_up")
    if not spans:
        return None
    begin, end = spans[0][0], spans[-1][1]
    before = max((sample.buffered for sample in samples if sample.at_s < begin), default=0)
    return next(
        (
            sample.at_s - end
            for sample in samples
            if sample.at_s >= end and sample.broker_up and sample.target_up and sample.buffered <= before
        ),
        None,
    )


def down_spans(samples: list[Sample], attribute: str) -> list[tuple[float, float]]:
    """Return the spans, in seconds, in which ``attribute`` (`broker_up` or `target_up`) was false."""
    spans: list[tuple[float, float]] = []
    since: float | None = None
    for sample in samples:
        if not getattr(sample, attribute) and since is None:
            since = sample.at_s
        elif getattr(sample, attribute) and since is not None:
            spans.append((since, sample.at_s))
            since = None
    if since is not None:
        spans.append((since, samples[-1].at_s))
    return spans

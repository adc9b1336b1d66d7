"""Sampler that follows links, so that the trace of a sampled record is complete.

Deliveries, buffered pages and commits are traces of their own, linked to the spans of their records. A sampler that
decides by trace alone would keep each of them with the same small probability, and almost never all of one record.
"""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, Sampler, SamplingResult
from opentelemetry.trace import Link, SpanKind, TraceState, get_current_span
from opentelemetry.util.types import Attributes


class LinkBasedSampler(Sampler):
    """Sampler of spans without a parent by their links; one link to a sampled span is enough."""

    def __init__(self, base: Sampler) -> None:
        """``base`` decides about spans with a parent, and about those that are linked to no sampled span."""
        self._base = base

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Return the decision about a span."""
        has_parent = get_current_span(parent_context).get_span_context().is_valid
        is_linked = not has_parent and any(link.context.trace_flags.sampled for link in links or ())
        sampler = ALWAYS_ON if is_linked else self._base
        return sampler.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    def get_description(self) -> str:
        """Return the name of this sampler with that of its base."""
        return f"LinkBased{{{self._base.get_description()}}}"


def following_links(sampler: Sampler) -> Sampler:
    """Return a parent-based sampler that follows links too; any other sampler unchanged."""
    return LinkBasedSampler(sampler) if isinstance(sampler, ParentBased) else sampler

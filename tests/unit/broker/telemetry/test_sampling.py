"""Sampling by links: which spans are kept beside a small ratio of all traces."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import Link, Span, SpanContext, TraceFlags, set_span_in_context

from forebay.broker.telemetry.sampling import LinkBasedSampler, following_links

SAMPLED = Link(SpanContext(7, 9, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)))
DROPPED = Link(SpanContext(7, 8, is_remote=True))
NONE = ParentBased(TraceIdRatioBased(0.0))


class Sampling:
    """Spans under a sampler, which keeps none of its own accord."""

    def __init__(self, sampler: Sampler) -> None:
        self._exporter = InMemorySpanExporter()
        self._provider = TracerProvider(sampler, shutdown_on_exit=False)
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("test")

    def span(self, name: str, *links: Link, parent: Span | None = None) -> Span:
        """Start and end a span."""
        context = None if parent is None else set_span_in_context(parent)
        span = self._tracer.start_span(name, context, links=links, attributes={"name": name})
        span.end()
        return span

    def kept(self) -> list[tuple[str, object]]:
        """Return name and attribute of each exported span."""
        return [(span.name, (span.attributes or {}).get("name")) for span in self._exporter.get_finished_spans()]


def test_a_span_that_is_linked_to_a_sampled_one_is_sampled_and_so_are_its_children() -> None:
    sampling = Sampling(following_links(NONE))

    delivery = sampling.span("deliver", DROPPED, SAMPLED)
    sampling.span("process", parent=delivery)
    sampling.span("settle", Link(delivery.get_span_context()))

    assert sampling.kept() == [(name, name) for name in ("deliver", "process", "settle")]


def test_a_span_without_a_link_to_a_sampled_one_is_left_to_the_ratio() -> None:
    sampling = Sampling(following_links(NONE))

    dropped = sampling.span("deliver", DROPPED)
    sampling.span("other")
    sampling.span("process", parent=dropped)

    assert sampling.kept() == []
    kept = Sampling(following_links(ParentBased(TraceIdRatioBased(1.0))))
    kept.span("deliver", DROPPED)
    assert kept.kept() == [("deliver", "deliver")]


def test_a_parent_counts_more_than_a_link() -> None:
    sampling = Sampling(following_links(NONE))

    dropped = sampling.span("request")
    sampling.span("settle", SAMPLED, parent=dropped)

    assert sampling.kept() == []


@pytest.mark.parametrize("sampler", [ALWAYS_OFF, TraceIdRatioBased(0.0)], ids=["off", "ratio"])
def test_a_sampler_that_follows_no_parent_follows_no_link_either(sampler: Sampler) -> None:
    sampling = Sampling(following_links(sampler))

    sampling.span("deliver", SAMPLED)

    assert sampling.kept() == []
    assert following_links(sampler) is sampler


def test_the_description_names_the_sampler_that_was_asked_for() -> None:
    assert LinkBasedSampler(TraceIdRatioBased(0.5)).get_description() == "LinkBased{TraceIdRatioBased{0.5}}"

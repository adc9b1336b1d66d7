"""Chart of the backlog over time, as one self-contained HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forebay.cli.demo.report.samples import History, Sample


def down_spans(samples: list[Sample], attribute: str) -> list[tuple[float, float]]:
    """Return the spans in which ``attribute`` (`broker_up` or `target_up`) was false, in seconds."""
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


def write_chart(history: History, path: Path, *, title: str, subtitle: str) -> Path:
    """Write the chart of ``history`` to ``path``, creating folders, and return the path."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    at = [sample.at_s for sample in history.samples]
    figure: Any = make_subplots(
        rows=2,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.08,
        row_heights=[0.62, 0.38],
        subplot_titles=(
            "records, since the start",
            "records in the buffer, not yet delivered",
        ),
    )
    for name, color in (("produced", "#8a8f98"), ("published", "#2563eb"), ("delivered", "#15803d")):
        values = [getattr(sample, name) for sample in history.samples]
        figure.add_trace(go.Scatter(x=at, y=values, name=name, line={"color": color, "width": 2}), row=1, col=1)
    backlog = [sample.buffered for sample in history.samples]
    figure.add_trace(
        go.Scatter(x=at, y=backlog, name="buffered", fill="tozeroy", line={"color": "#b45309", "width": 2}),
        row=2,
        col=1,
    )
    for attribute, label, color in (
        ("target_up", "remote system down", "#dc2626"),
        ("broker_up", "broker away", "#111827"),
    ):
        for begin, end in down_spans(history.samples, attribute):
            figure.add_vrect(
                x0=begin,
                x1=end,
                fillcolor=color,
                opacity=0.16,
                line_width=0,
                annotation_text=label,
                annotation_position="top left",
                row=2,
                col=1,
            )
            figure.add_vrect(x0=begin, x1=end, fillcolor=color, opacity=0.10, line_width=0, row=1, col=1)
    figure.update_xaxes(title_text="seconds since the start", row=2, col=1)
    figure.update_yaxes(rangemode="tozero")
    figure.update_layout(
        title={"text": f"{title}<br><sup>{subtitle}</sup>"},
        template="plotly_white",
        hovermode="x unified",
        height=760,
        legend={"orientation": "h", "y": 1.02, "x": 1, "xanchor": "right", "yanchor": "bottom"},
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.write_html(path, include_plotlyjs=True, full_html=True)
    return path

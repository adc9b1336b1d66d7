"""HTML of the pages. Everything is escaped: for HTML, and control and bidirectional characters before."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from forebay.broker.console.charts import day_charts, health, latencies, quarter_charts, spark, strip
from forebay.broker.console.pages.page import Page
from forebay.broker.console.values import row_table, value_text
from forebay.state import numbers as text
from forebay.text import visible

TEMPLATES: Final = Path(__file__).parent / "templates"

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Renderer:
    """Templates of the console."""

    def __init__(
        self, endpoint: Callable[[], str], *, can_write: bool = False, trace_url: str = "", spark_url: str = ""
    ) -> None:
        """``endpoint`` returns the address of the broker for the commands on the pages.

        ``trace_url`` is the address of a trace, with ``{trace_id}``, and ``spark_url`` that of a Spark application,
        with ``{application}``; empty for none.
        """
        self._endpoint = endpoint
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_shown,
        )
        self._environment.globals.update(can_write=can_write)
        self._environment.filters.update(
            count=text.count,
            plural=text.plural,
            size=text.size,
            duration=text.duration,
            rate=text.rate,
            clock=_clock,
            proto_clock=lambda at: _clock(at.ToMicroseconds()),
            spark=spark,
            strip=strip,
            health=health,
            day_charts=day_charts,
            quarter_charts=quarter_charts,
            coded=coded,
            value=lambda record, view: escape(value_text(record, view)),
            rows=row_table,
            traced=lambda trace: link(trace_url, "trace_id", trace),
            spark_address=lambda application: link(spark_url, "application", application),
            latencies=latencies,
            word=lambda state: state.replace(" ", "-"),
        )

    def document(self, page: Page, *, is_live: bool) -> str:
        """Return a whole page; a live one gets its content again when that changes."""
        asked = f"?{page.query}" if page.query else ""
        return self._environment.get_template("page.html").render(
            page=page,
            content=Markup(self.content(page)),
            commands=[
                *(f"{command} --endpoint {self._endpoint()}" for command in (page.command, *page.further)),
                *page.offline,
            ],
            json=f"{page.path}.json{asked}",
            events=f"/events{page.path}{asked}" if is_live else "",
        )

    def content(self, page: Page) -> str:
        """Return the part of a page that is updated."""
        shown = page.data if page.shown is None else page.shown
        return self._environment.get_template(page.template).render(page=page, data=shown)

    def failure(self, status: int, detail: str) -> str:
        """Return the page of an error."""
        return self._environment.get_template("failure.html").render(status=status, detail=detail)


def link(template: str, name: str, value: str) -> str:
    """Return the address that a template has for a value; empty without one of them."""
    return template.replace(f"{{{name}}}", quote(value, safe="")) if template and value else ""


def coded(sentence: str) -> Markup:
    """Return a sentence as HTML; what is between backticks is code."""
    parts = sentence.split("`")
    return Markup("").join(Markup("<code>{}</code>" if at % 2 else "{}").format(part) for at, part in enumerate(parts))


def _shown(value: Any) -> Any:
    """Make control characters of foreign texts visible; numbers and markup stay as they are."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _clock(at_us: int) -> Markup:
    """Return a time as HTML, in UTC."""
    # A float would round the last microsecond of 9999 to the year 10000.
    at = EPOCH + timedelta(microseconds=at_us)
    return Markup('<time datetime="{}">{} UTC</time>').format(at.isoformat(), escape(f"{at:%Y-%m-%d %H:%M:%S}"))

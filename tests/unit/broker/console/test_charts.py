"""The charts of the console say in words what they draw, and escape the names of others."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from forebay.broker.console.charts import day_charts, health, latencies, quarter_charts, spark, strip
from forebay.broker.console.health import HEALTH_SPAN_S, HEALTH_SPANS
from forebay.broker.console.history import SAMPLE_S, SAMPLES, SPANS, Rates, Spans, day, quarter
from forebay.state.flow import Flow


@dataclass(frozen=True)
class Lane:
    """Account of a subscription on a partition, as the strip reads it."""

    start_offset: int = 0
    pending: int = 0
    in_flight: int = 0
    dropped: int = 0


def widths(markup: str) -> dict[str, float]:
    """Return the widths of the segments of a strip."""
    return {name: float(width) for name, width in re.findall(r'<rect class="(\w+)".*?width="([\d.]+)"', markup)}


def test_a_line_of_numbers_says_its_last_and_its_highest_one() -> None:
    found = spark([1.0, 5.0, 2.0], 'Waiting "<records>"')

    assert "now 2, at most 5 in 3 samples" in found
    assert "<records>" not in found
    assert spark([], "nothing") == spark([1.0], "one") == ""
    assert "NaN" not in spark([0.0, 0.0], "zeros")


def test_the_health_of_a_day_names_its_highest_backlog_and_marks_what_needed_attention() -> None:
    last = Spans(HEALTH_SPANS, HEALTH_SPAN_S)
    for minutes, waiting, state in ((0, 5, Flow.FLOWING), (15, 900, Flow.BACKING_OFF), (30, 30, Flow.FLOWING)):
        last.add(60.0 * minutes, Rates(), waiting, state)

    found = health(list(last), "<orders>")

    assert "at most 900 waiting records in the last 45 min; backing off for 15 min" in found
    assert found.count("<rect") == found.count('class="backing-off"') == 1
    assert "<orders>" not in found
    assert health((), "nothing") == ""


def test_a_strip_has_a_segment_for_what_is_missing_in_gaps() -> None:
    found = strip(Lane(start_offset=100, pending=50, in_flight=20, dropped=30), end=300)

    assert "120 settled, 30 in gaps, 20 in flight, 30 waiting" in found
    assert widths(found) == {"settled": 60, "gap": 15, "flight": 10, "wait": 15}


def test_a_strip_without_records_is_empty() -> None:
    assert widths(strip(Lane(), end=0)) == {"settled": 0, "gap": 0, "flight": 0, "wait": 0}


def test_the_charts_of_a_day_have_rates_bands_and_labels_of_both_axes() -> None:
    last = day()
    last.add(0.0, Rates(40.0, 30.0), 500, Flow.FLOWING)
    last.add(300.0, Rates(20.0, 0.0), 6_500, Flow.FULL)

    found = day_charts(list(last))

    assert "Backlog: at most 6,500 waiting records in the last 10 min; full for 5 min" in found
    assert "Records per second: in at most 40/s, out at most 30/s in the last 10 min" in found
    assert re.findall(r'<span class="y top">(.*?)</span>', found) == ["6,500", "40/s"]
    assert re.findall(r'<span class="x at\d+">(.*?)</span>', found)[:5] == [
        "24 h ago",
        "18 h ago",
        "12 h ago",
        "6 h ago",
        "now",
    ]
    assert found.count('class="full"') == 2
    assert '<span class="key band full"></span>full' in found
    assert day_charts(()) == ""


@pytest.mark.parametrize("quiet", [0, SPANS + 5])
def test_the_newest_span_is_at_the_right_end_of_the_day(quiet: int) -> None:
    last = day()
    last.add(0.0, Rates(1.0, 1.0), 5, Flow.FLOWING)
    last.add(300.0 * (1 + quiet), Rates(1.0, 1.0), 5, Flow.FLOWING)

    [points, _] = re.findall(r'<polyline class="\w+" points="(.*?)"', day_charts(list(last)))
    assert points.split()[-1].startswith(f"{SPANS},")
    assert all(0 <= float(point.partition(",")[0]) <= SPANS for point in points.split())


def test_a_histogram_says_each_bucket_and_where_half_and_nearly_all_are() -> None:
    drawn = str(latencies((0, 90, 9, 0, 0, 0, 1), "<orders> default"))

    assert "Pages of &lt;orders&gt; default by time: up to 10 ms 90, up to 100 ms 9, above 1 min 1" in drawn
    assert "half up to 10 ms, 99 % up to 100 ms" in drawn
    assert drawn.count("<rect") == 7


def test_a_histogram_without_events_is_nothing() -> None:
    assert latencies((), "orders") == latencies((0, 0, 0, 0, 0, 0, 0), "orders") == ""


def test_the_charts_of_a_quarter_of_an_hour_have_its_bands_and_labels() -> None:
    last = quarter()
    for number, state in enumerate((Flow.FLOWING, Flow.BACKING_OFF, Flow.BACKING_OFF, Flow.FLOWING)):
        last.add(number * SAMPLE_S, Rates(10.0 * number, 5.0), 7 * number, state)

    found = quarter_charts(list(last))

    assert "Backlog: at most 21 waiting records in the last 20 s; backing off for 10 s" in found
    assert "in at most 30/s, out at most 5.0/s in the last 20 s" in found
    assert re.findall(r'<span class="x at\d+">(.*?)</span>', found)[:4] == [
        "15 min ago",
        "10 min ago",
        "5 min ago",
        "now",
    ]
    places = re.findall(r'<rect class="backing-off" x="(\d+)" y="0" width="(\d+)"', found)
    assert places == [(str(SAMPLES - 3), "2")] * 2, "one band for both samples, in both charts"
    assert quarter_charts(()) == ""


@pytest.mark.parametrize(("distance", "width"), [(1, 1), (12, 12), (13, 1)])
def test_an_outage_reaches_to_the_next_sample_unless_that_is_late(distance: int, width: int) -> None:
    last = quarter()
    last.add(0.0, Rates(), 5, Flow.PAUSED)
    last.add(distance * SAMPLE_S, Rates(), 5, Flow.FLOWING)

    found = quarter_charts(list(last))

    assert re.findall(r'<rect class="paused" x="(\d+)" y="0" width="(\d+)"', found)[0] == (
        str(SAMPLES - 1 - distance),
        str(width),
    )

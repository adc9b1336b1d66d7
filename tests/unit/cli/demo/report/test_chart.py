"""The chart is one small file that needs nothing else, and names outages, kills and figures."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from forebay.cli.demo.plan import Action
from forebay.cli.demo.report.chart import WIDTH, write_chart
from forebay.cli.demo.report.samples import SAMPLES_MAX, Event, History, Sample


def history(seconds: int = 40) -> History:
    """A run with an outage of the remote system from 10 to 20 s, and a kill of the broker at 14 s."""
    found = History(events=[Event(14, "the broker was killed", Action.KILL_BROKER)])
    for quarter in range(4 * seconds):
        at_s = quarter / 4
        produced = round(100 * at_s)
        published = 1_400 if 14 <= at_s < 15 else produced
        delivered = produced if at_s < 10 else 1_000 if at_s < 20 else min(produced, 1_000 + round((at_s - 20) * 300))
        found.add(
            Sample(
                at_s,
                produced,
                published,
                delivered,
                0.0,
                broker_up=not 14 <= at_s < 15,
                target_up=not 10 <= at_s < 20,
            )
        )
    return found


def page(tmp_path: Path, found: History) -> str:
    """Return the file of a run."""
    path = write_chart(found, tmp_path / "deep" / "chart.html", title="A <run>", subtitle="its end", lost=0)
    return path.read_text(encoding="utf-8")


def drawing(text: str) -> ElementTree.Element:
    """Return the drawing of a page."""
    [found] = re.findall(r'<div class="plot">(<svg.*?</svg>)', text)
    return ElementTree.fromstring(found)


def heights(polygon: ElementTree.Element) -> list[float]:
    """Return the vertical places of the points of a shape."""
    return [float(point.partition(",")[2]) for point in polygon.attrib["points"].split()]


def test_the_file_is_small_and_loads_and_runs_nothing(tmp_path: Path) -> None:
    text = page(tmp_path, history(seconds=2_000))

    assert len(text) < 100_000
    assert "<script" not in text
    assert not re.search(r"(?:src|href|url)\s*[=(]", text)
    assert "A &lt;run&gt;" in text


def test_three_figures_are_above_the_chart(tmp_path: Path) -> None:
    text = page(tmp_path, history())

    assert re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text) == [
        ("lost", "0"),
        ("peak waiting", "1,000"),
        ("time to drain", "5.0 s"),
    ]


def test_the_areas_lie_on_each_other_and_end_under_the_line_of_what_was_produced(tmp_path: Path) -> None:
    shapes = list(drawing(page(tmp_path, history())))
    areas = {shape.attrib["class"]: heights(shape) for shape in shapes if shape.tag == "polygon"}
    [line] = [heights(shape) for shape in shapes if shape.tag == "polyline"]

    assert list(areas) == ["delivered", "waiting", "unwritten"]
    half = len(line)
    assert areas["waiting"][half:] == areas["delivered"][:half][::-1]
    assert areas["unwritten"][half:] == areas["waiting"][:half][::-1]
    assert areas["unwritten"][:half] == line


def test_an_outage_is_a_named_band_and_a_kill_a_flag(tmp_path: Path) -> None:
    text = page(tmp_path, history())
    [outage] = [shape.attrib for shape in drawing(text) if shape.tag == "rect" and shape.attrib["class"] == "target"]

    assert float(outage["x"]) / WIDTH == pytest.approx(10 / 39.75, abs=0.01)
    assert float(outage["width"]) / WIDTH == pytest.approx(10 / 39.75, abs=0.01)
    assert 'class="band"' in text
    assert "remote system down, 10.0 to 20.0 s" in text
    assert "broker away, 14.0 to 15.0 s" in text
    assert text.count('class="flag"') == 1
    assert "broker killed (-9) at 14.0 s" in text


def test_a_run_without_a_sample_is_drawn_too(tmp_path: Path) -> None:
    assert "0 records produced" in page(tmp_path, History())


def test_one_record_is_no_plural(tmp_path: Path) -> None:
    found = History()
    found.add(Sample(0.0, 1, 1, 1, 0.0, broker_up=True, target_up=True))

    assert "1 record produced and 1 delivered" in page(tmp_path, found)


def test_a_long_run_is_thinned_and_not_cut() -> None:
    found = History()
    for at_s in range(SAMPLES_MAX + 10):
        found.add(Sample(at_s, 100, 90, 40, 1.5, broker_up=True, target_up=True))

    assert len(found.samples) < SAMPLES_MAX
    assert found.samples[-1].at_s == SAMPLES_MAX + 9

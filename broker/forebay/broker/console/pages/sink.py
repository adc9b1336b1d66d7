"""One sink: its account, its settings, and its last day."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.json_format import MessageToDict
from starlette.requests import Request

from forebay.broker.console.pages.page import Page, PageSource
from forebay.broker.core.settings import DEFAULTS, SETTINGS, SinkSettings
from forebay.broker.rpc.sinks import convert
from forebay.broker.runtime.sink.statistics import sink_state


@dataclass(frozen=True, slots=True)
class SettingLine:
    """One setting of a sink."""

    name: str
    value: str
    origin: str
    """``sink``, ``[sink_defaults]`` or ``built-in default``."""

    effect: str
    """Effect on the guarantees of the sink."""


def origins(settings: SinkSettings, defaults: SinkSettings) -> list[SettingLine]:
    """Return the settings with their origins; ``defaults`` are those of the broker."""
    found: list[SettingLine] = []
    for one in SETTINGS:
        value, default, built_in = (getattr(each, one.name) for each in (settings, defaults, DEFAULTS))
        origin = "sink" if value != default else "[sink_defaults]" if default != built_in else "built-in default"
        found.append(SettingLine(one.public_name, one.text(value), origin, one.guarantee))
    return found


async def sink(source: PageSource, request: Request) -> Page:
    """Return the state of one sink, partition by partition."""
    name = source.named(request)
    buffer = source.broker.sinks[name]
    snapshot = await source.sampler.current()
    message = await convert.stats(buffer, await sink_state(buffer), source.broker.clock.wall_us())
    history = snapshot.histories.get(name)
    lines = await source.lines([one for one in snapshot.sinks if one.name == name])
    data = {
        "line": lines[0] if lines else None,
        "stats": message,
        "settings": MessageToDict(convert.settings_message(buffer.settings), preserving_proto_field_name=True),
        "setting_lines": origins(buffer.settings, source.broker.sink_defaults),
        "quarter": tuple(history.quarter) if history is not None else (),
        "day": tuple(history.day) if history is not None else (),
    }
    further = (f"forebay lag {name} -p",)
    return Page("sink.html", name, data, f"forebay sink show {name}", f"/sinks/{name}", further=further)
